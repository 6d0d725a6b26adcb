"""Columns of an item, what it entered a queue with, and what happened to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from spark_queue.delta.views.answers import ENTRY

if TYPE_CHECKING:
    from spark_queue.delta.store.store import Store
    from spark_queue.delta.views.answers import Answers, ViewSource


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


def transition(row: Mapping[str, Any]) -> Transition:
    """Return a row of the view ``history`` as a line of a time line."""
    until = {"claimed": "lease_expires_at", "ready": "available_at"}.get(row["state"])
    shared = {one.name: row[one.name] for one in fields(Transition) if one.name in row}
    counts = {name: row[name] or 0 for name in ("attempts", "losses")}
    return Transition(**{**shared, **counts}, until=row[until] if until else None)


def read_entry(store: Store, source: ViewSource, answers: Answers, seq: int) -> ItemEntry | None:
    """Read what an item is; ``None`` where there is none."""
    row = source.find_entry(store, seq)
    if row is None:
        return None
    # What was refused stands nowhere.
    stands = answers.rows("status", f"seq = {seq}")
    facts = {name[1:]: row[name] for name in ENTRY}
    for status in stands:
        facts |= {"available_at": status["available_at"], "expires_at": status["deadline"]}
    columns = {name: _in_utc(value) for name, value in row.items() if name not in ENTRY}
    return ItemEntry(columns=columns, **{name: _in_utc(value) for name, value in facts.items()})


def _in_utc(value: Any) -> Any:
    """Return an instant in UTC; a time of the wall has no offset, and stays as it is."""
    is_instant = isinstance(value, datetime) and value.tzinfo is not None
    return value.astimezone(timezone.utc) if is_instant else value
