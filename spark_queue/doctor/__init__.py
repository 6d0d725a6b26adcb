"""What is wrong with a queue, since when, how bad it is, and the command that mends it.

A check is a small function that looks at a queue and yields what it finds; all of them are in
:mod:`~spark_queue.doctor.registry`. Nothing here writes.
"""
