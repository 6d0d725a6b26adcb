"""Positions of a queue's readers, for a front that takes over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from spark_queue.delta.journal.tables import JournalTables, Touched
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import READY, TERMINAL
from spark_queue.journal.records import ReaderOffset


def offset(tables: JournalTables, place: Store) -> ReaderOffset:
    """Return where a reader is: what it is done with, what it failed at, and how much waits."""
    head = place.status_head()
    facts = place.registered()
    rows = tables.find_touched(place, head)
    done = {row.seq for row in rows if row.state in TERMINAL}
    begins = _begin_of(place, facts.since_step)
    passed = max(begins, head.pointers.get(0, (0.0, begins))[1])
    behind = frozenset(seq for seq in done if seq > passed)
    back = [row.seq for row in rows if row.state == READY and row.seq <= passed]
    return ReaderOffset(
        reader=place.reader,
        name=facts.name,
        config=place.limits(),
        created_at=_instant(facts.at) or place.clock.now(),
        head=_head(passed, done, rows),
        done=behind,
        items=place.outstanding(head),
        bytes=tables.bytes_of(place, passed, behind, back),
        errors={row.seq: row.attempts for row in rows if row.state == READY and row.attempts},
    )


def _begin_of(store: Store, step: int) -> int:
    """Return the last id of the steps up to one."""
    if step == 0:
        return 0
    at = store.queue.head_at(step)
    return 0 if at is None else at.last_seq


def _head(passed: int, done: set[int], rows: Sequence[Touched]) -> int:
    """Return the highest id with everything up to it done; what was touched is known by itself."""
    open_before = [row.seq for row in rows if row.seq <= passed and row.seq not in done]
    head = min(open_before) - 1 if open_before else passed
    while head + 1 in done:
        head += 1
    return head


def _instant(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
