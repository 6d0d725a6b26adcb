"""Engines of the commands: Spark, or this process."""
