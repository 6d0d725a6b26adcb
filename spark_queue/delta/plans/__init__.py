"""What Spark decides: the rules of a queue as plans over its logs."""
