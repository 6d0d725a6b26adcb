"""Columns of an item, what it entered a queue with, and what happened to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


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
