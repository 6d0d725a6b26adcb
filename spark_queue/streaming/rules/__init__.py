"""The rules of the operators on streams, a bucket of keys each; they know nothing of Spark."""
