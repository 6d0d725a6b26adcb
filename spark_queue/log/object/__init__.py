"""Logs on object stores: conditional PUTs, requests, a copy on this machine's disk.

Imports the disk, outputs and :mod:`spark_queue.log.delta`; nothing of Spark.
"""
