"""Columns without Spark: types from DDL, keys and sizes over Arrow, rows of any kind.

Imports :mod:`spark_queue.columns`.
"""
