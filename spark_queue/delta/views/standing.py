"""Waiting items of an empty claim, and their reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from spark_queue.delta.planner import planner_of
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.settings import Settings
from spark_queue.rules.rule_model import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Items that are not over, by the reason why they do not run."""

    waiting: Mapping[Reason, int] = field(default_factory=dict)
    until: datetime | None = None
    """When time alone may let one of them run: the end of a delay, or of a lease."""


def standing(store: Store) -> Standing:
    """Count what is left of a queue; one that is empty is not read."""
    with store.writing("status"):
        head = store.status_head()
        left = store.outstanding(head)
        if left <= 0:
            return Standing()
        settings = store.settings(head)
        found = _waiting(store, head, settings, left)
    return Standing(
        waiting={why: n for why, n in found.waiting.items() if n > 0}, until=found.until
    )


def _waiting(store: Store, head: StatusHead, settings: Settings, left: int) -> Standing:
    coming = planner_of(store).coming(head, settings, store.clock.now())
    ready = left - head.claimed
    waiting: dict[Reason, int] = {"leased": head.claimed, "delayed": coming.delayed}
    in_the_way: Reason = "paused" if settings.paused else _in_the_way(head, settings)
    waiting[in_the_way] = ready - coming.delayed
    return Standing(
        waiting=waiting, until=min(filter(None, (coming.held_until, coming.due)), default=None)
    )


# rule again: room of a claim, reason of an item
def _in_the_way(head: StatusHead, settings: Settings) -> Reason:
    """Say what holds up items that are due, where a claim gets none of them."""
    most = settings.config.max_in_flight
    if most is not None and head.claimed >= most:
        return "limit"
    return "runnable" if settings.config.group_key is None else "held by group"
