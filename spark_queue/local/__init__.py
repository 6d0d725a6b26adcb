"""Queues on this machine's disk, worked with by a process that has no Spark."""
