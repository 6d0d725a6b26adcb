"""State of an opened queue: its two logs, memory of its items, schedulers, snapshots, steps.

Imports rules, logs and settings. The state decides small steps within a millisecond; a large one
is left to a planner (``docs/adr/0019-replica.md``).
"""
