"""The scheduling rules: pure, deterministic, with time passed in.

:class:`Scheduler` is one queue in memory. What it decides, every engine of the library decides.
"""
