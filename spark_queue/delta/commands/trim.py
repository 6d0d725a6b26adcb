"""Readers that drop their oldest items, because they are full or too far behind."""

from __future__ import annotations

from spark_queue.delta.commands import admin, readers
from spark_queue.delta.planner import planner_of
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CANCELLED
from spark_queue.reader_config import ReaderConfig

#: Why an item was dropped.
FULL = "dropped: the reader is full"
LAGS = "dropped: the reader is too far behind"


def full(at: Snapshot) -> int:
    """Drop the oldest items of readers that are over their limits and say so; return how many.

    Items in flight stay, and count. The readers are those of the newest step that was seen.
    """
    dropped, newest = 0, at.cache.queue.head or at.queue
    for number, facts in newest.readers.items():
        if facts.streams or facts.config.get("full_policy") != "drop_oldest":
            continue
        reader = readers.prepare(at.store.of_reader(number))
        limits = ReaderConfig.from_dict(facts.config)
        dropped += _items(reader, limits.max_items, FULL)
        dropped += _bytes(reader, limits.max_bytes)
    return dropped


def behind(store: Store) -> int:
    """Drop what readers have not read that are further behind than they may be."""
    return sum(_items(reader, reader.limits().max_lag, LAGS) for reader in readers.every(store))


def _items(reader: Store, most: int | None, why: str) -> int:
    if most is None or reader.outstanding(reader.status_head()) <= most:
        return 0

    planner = planner_of(reader)
    return admin.end(reader, "drop", lambda at: planner.oldest(at, most), CANCELLED, why)[1]


def _bytes(reader: Store, most: int | None) -> int:
    if most is None:
        return 0
    planner = planner_of(reader)
    if planner.outstanding_bytes(Snapshot(reader)) <= most:
        return 0
    return admin.end(reader, "drop", lambda at: planner.oldest_by_bytes(at, most), CANCELLED, FULL)[
        1
    ]
