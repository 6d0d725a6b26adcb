"""Dry runs of an operator's commands: counted, shown, not written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from spark_queue.commands import admin, readers
from spark_queue.log.heads import StatusHead
from spark_queue.log.schema import TERMINAL
from spark_queue.results import SAMPLES, Affected
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import existence
from spark_queue.state.store import Store

#: What becomes of an item that leaves the queue for good.
GONE = "gone"

#: Every item.
_ALL = (*admin.LIVE, *TERMINAL)


def foresee_drop(store: Store) -> Affected:
    """Count the items that a drop would remove, as the first reader sees them."""
    store = next(readers.with_logs(store), store)
    return planner_of(store).count_affected(admin.matching(store, "true", _ALL), GONE)


def unread(reader: Store) -> Affected:
    """Return a reader's open items, which it forgets when it is dropped.

    A reader of a stream has a position only; one without a log has no items done.
    """
    if reader.registered().streams or not existence.is_prepared(reader):
        return Affected(reader.outstanding(StatusHead()))
    return planner_of(reader).count_affected(admin.matching(reader, "true", admin.LIVE), GONE)


def together(parts: Iterable[Affected]) -> Affected:
    """Return several changes as one."""
    states: Counter[str] = Counter()
    becomes: Counter[str] = Counter()
    sample: list[Mapping[str, Any]] = []
    for part in parts:
        states.update(part.states)
        becomes.update(part.becomes)
        sample += part.sample
    return Affected(becomes.total(), states=states, becomes=becomes, sample=sample[:SAMPLES])
