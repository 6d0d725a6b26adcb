"""Rules of a queue as Spark plans over its logs."""
