"""Tables that take the results of items, with one transaction a claim.

Imports the disk and :mod:`spark_queue.log.delta`.
"""
