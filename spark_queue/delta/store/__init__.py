"""Logs of a queue, memory of them, and the right to write."""
