"""Holders of items, with whether they live."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.liveness import judge
from spark_queue.delta.views.ends import Ends
from spark_queue.report.engine import Engine
from spark_queue.report.model import HeldGroup, ItemLine, WorkerLine
from spark_queue.results import Liveness

#: Those that somebody should look at first.
_ORDER = (Liveness.GONE, Liveness.LATE)


def directory_at(store: Store, ends: Ends) -> Path | None:
    """Return where life locks are; ``None`` where a report goes by leases, as one of then does."""
    return store.handle.place.directory() if ends.at is None else None


def workers(engine: Engine, directory: Path | None, now: datetime) -> tuple[WorkerLine, ...]:
    """Return the panel of workers: first those that hold items and are gone, then late ones."""
    found = [_worker(row, directory, now) for row in engine.rows("workers")]
    return tuple(sorted(found, key=_place))


def groups(engine: Engine, directory: Path | None, now: datetime) -> tuple[HeldGroup, ...]:
    """Return the panel of held groups."""
    return tuple(held_group(row, directory, now) for row in engine.rows("groups"))


def held_group(row: dict[str, Any], directory: Path | None, now: datetime) -> HeldGroup:
    """Return a line of the panel of held groups; its holder is judged where the head is leased."""
    is_held = row["worker_id"] is not None or row["why"] == "leased"
    liveness = judge(directory, row["worker_id"], row["until"], now) if is_held else None
    return HeldGroup(**row, liveness=liveness)


def item_line(row: dict[str, Any], directory: Path | None, now: datetime) -> ItemLine:
    """Return an item of a list; its holder is judged where it has one."""
    until = row["lease_expires_at"]
    liveness = None if until is None else judge(directory, row["worker_id"], until, now)
    row = {**row, "liveness": liveness}
    return ItemLine(**{one.name: row[one.name] for one in fields(ItemLine)})


def _worker(row: dict[str, Any], directory: Path | None, now: datetime) -> WorkerLine:
    # One whose other leases are in force is late, however long ago the first of them ran out.
    until = now if 0 < row["late"] < row["items"] else row["until"]
    return WorkerLine(**row, liveness=judge(directory, row["worker_id"], until, now))


def _place(worker: WorkerLine) -> int:
    if not worker.items or worker.liveness not in _ORDER:
        return len(_ORDER)
    return _ORDER.index(worker.liveness)
