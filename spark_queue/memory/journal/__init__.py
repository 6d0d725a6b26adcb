"""The journaled queue: one log of items, many readers, each with a position of its own.

Imports :mod:`spark_queue.memory.waiting`.
"""
