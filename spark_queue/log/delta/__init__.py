"""Delta's own format: commits, checksums, heads found by statistics, records of claims.

Imports the vocabulary of :mod:`spark_queue.log`; no storage.
"""
