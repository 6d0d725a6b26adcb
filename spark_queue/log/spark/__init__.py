"""Logs that a session of Spark reads and writes, and its types.

Imports the other storages; the only room below :mod:`spark_queue.spark` that imports Spark.
"""
