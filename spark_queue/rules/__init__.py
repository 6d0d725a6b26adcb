"""The scheduling rules: pure, deterministic, with time passed in.

:class:`Scheduler` is one queue in memory. What it decides, every engine of the library decides.
"""

from __future__ import annotations

from spark_queue.rules.outcomes import retry_draw
from spark_queue.rules.rule_model import (
    Ack,
    Admitted,
    Counts,
    Dead,
    Defer,
    Grant,
    Item,
    ItemReason,
    Leased,
    Nack,
    NewItem,
    Outcome,
    Release,
    Settled,
)
from spark_queue.rules.scheduler import Scheduler

__all__ = [
    "Ack",
    "Admitted",
    "Counts",
    "Dead",
    "Defer",
    "Grant",
    "Item",
    "ItemReason",
    "Leased",
    "Nack",
    "NewItem",
    "Outcome",
    "Release",
    "Scheduler",
    "Settled",
    "retry_draw",
]
