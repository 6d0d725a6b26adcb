"""Logs on this machine's disk: appends and fsync, the write lock, liveness, maintenance.

Imports :mod:`spark_queue.log.delta`; no other storage.
"""
