"""Columns of an item, what it entered a queue with, and what happened to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_queue.delta.store.store import Store
    from spark_queue.report.engine import Engine, Engines


#: What is read of an item's row beside the user's columns.
ENTERED = (
    *("_dedup_key", "_fair_key", "_group_key", "_priority", "_cost", "_max_attempts"),
    *("_enqueued_at", "_available_at", "_expires_at", "_origin"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemEntry:
    """What an item is."""

    columns: Mapping[str, Any]
    """The user's columns."""
    dedup_key: str | None
    fair_key: str | None
    group_key: str | None
    priority: int | None
    cost: float | None
    max_attempts: int | None
    """The failures after which it is dead; ``None`` for the queue's."""
    enqueued_at: datetime
    available_at: datetime | None
    """Before when it does not run: as it was enqueued, or since its last failure."""
    expires_at: datetime | None
    """Its deadline: its own, or that of the reader, whichever is sooner."""
    origin: int | None
    """The item that was redriven as this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A row of an item's time line."""

    log: str
    step: int
    at: datetime
    state: str
    attempts: int
    losses: int
    worker_id: str | None
    until: datetime | None
    """When the lease, or the delay, ends."""
    error: str | None
    origin: int | None
    """The finished item that it repeats."""
    duplicate_of: int | None
    """The item that held its key."""


def read_entry(store: Store, engines: Engines, engine: Engine, seq: int) -> ItemEntry | None:
    """Read what an item is; ``None`` where there is none."""
    row = engines.find_entry(store, seq)
    if row is None:
        return None
    # What was refused stands nowhere.
    stands = next(iter(engine.rows("standing", f"seq = {seq}")), {})
    facts = {name[1:]: row[name] for name in ENTERED}
    facts |= {name: stands[name] for name in stands if name in ("available_at", "expires_at")}
    columns = {name: _in_utc(value) for name, value in row.items() if name not in ENTERED}
    return ItemEntry(columns=columns, **{name: _in_utc(value) for name, value in facts.items()})


def _in_utc(value: Any) -> Any:
    """Return an instant in UTC; a time of the wall has no offset, and stays as it is."""
    is_instant = isinstance(value, datetime) and value.tzinfo is not None
    return value.astimezone(timezone.utc) if is_instant else value
