"""Diagnosis of a queue: faults, severity, time, and the command that mends.

A check is a small function that looks at a queue and yields what it finds; all of them are in
:mod:`~spark_queue.doctor.examine`. Nothing here writes.
"""
