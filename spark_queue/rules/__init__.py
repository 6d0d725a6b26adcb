"""The scheduling rules: pure, deterministic, with time passed in.

:class:`Scheduler` is one queue in memory. What it decides, every engine of the library decides.
"""

from __future__ import annotations

from spark_queue.rules.outcomes import retry_draw as retry_draw
from spark_queue.rules.rule_model import (
    Ack as Ack,
    Admitted as Admitted,
    Counts as Counts,
    Dead as Dead,
    Defer as Defer,
    Grant as Grant,
    Item as Item,
    ItemReason as ItemReason,
    Leased as Leased,
    Nack as Nack,
    NewItem as NewItem,
    Outcome as Outcome,
    Release as Release,
    Settled as Settled,
)
from spark_queue.rules.scheduler import Scheduler as Scheduler
