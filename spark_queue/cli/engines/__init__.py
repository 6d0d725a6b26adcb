"""Who answers a command: Spark, or this process where the queue is on its disk."""
