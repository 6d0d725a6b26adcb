"""Queues for the threads and coroutines of one process: no Spark, and nothing outlives it."""

from __future__ import annotations
