"""How the logs of a queue are written and read, step by step: by Spark, or natively."""
