"""State of an opened queue: its two logs, memory of its items, schedulers, snapshots, steps.

Imports rules, logs and settings. The state decides small steps within a millisecond; a large one
is left to a planner (``docs/adr/0019-replica.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_queue import extras

if TYPE_CHECKING:
    from spark_queue.state import (
        request as request,
        settle_decision as settle_decision,
        snapshot as snapshot,
        step_waits as step_waits,
        steps as steps,
    )

__getattr__ = extras.submodules(__name__)
