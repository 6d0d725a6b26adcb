"""Fronts in the driver: single items in and out, in memory, over queues that are durable."""
