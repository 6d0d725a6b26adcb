"""Shared parts of in-process queues: lines of waiters, timers, futures, aborts."""
