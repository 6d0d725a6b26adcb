"""Queues for the threads and coroutines of one process; nothing outlives it.

Imports configuration and errors; neither Spark nor Arrow.
"""
