"""The scheduling rules: pure, deterministic, with time passed in.

:class:`Scheduler` is one queue in memory. What it decides, every engine of the library decides.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_NAMES = {
    "outcomes": "retry_draw",
    "rule_model": (
        "Ack Admitted Counts Dead Defer Grant Item ItemReason Leased Nack NewItem Outcome "
        "Release Settled"
    ),
    "scheduler": "Scheduler",
}

#: Where each is made: who takes a type does not load the scheduler.
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
