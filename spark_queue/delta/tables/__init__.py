"""Logs of a queue, written by Spark, or natively."""
