"""Capacity left for the readers of a queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_queue.delta.input.sizes import bytes_of
from spark_queue.delta.plans import candidates, fold
from spark_queue.delta.store.store import Store, is_long
from spark_queue.delta.tables.schema import CLAIMED


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What one reader, the fullest, still takes; ``None`` where there is no limit."""

    reader: str = ""
    items: int | None = None
    bytes: int | None = None

    def is_bounded(self) -> bool:
        """Tell whether there is any limit."""
        return self.items is not None or self.bytes is not None

    def cut(self, rows: DataFrame) -> int | None:
        """Return the place in the frame behind which rows find no room; ``None`` where all do.

        Items are accepted while there are fewer bytes than the limit, so one may reach over it.

        Parameters
        ----------
        rows : DataFrame
            The rows that are no duplicates: ``_pos``, and ``_bytes``.
        """
        before = Window.orderBy("_pos").rowsBetween(Window.unboundedPreceding, -1)
        placed = rows.withColumns(
            {
                "_items": F.row_number().over(Window.orderBy("_pos")),
                "_before": F.coalesce(F.sum("_bytes").over(before), F.lit(0)),
            }
        )
        refused = F.lit(False)
        if self.items is not None:
            refused = refused | (F.col("_items") > self.items)
        if self.bytes is not None:
            refused = refused | (F.col("_before") >= self.bytes)
        first = placed.where(refused).agg(F.min("_pos")).collect()[0][0]
        return None if first is None else int(first) - 1


def left(readers: Iterable[Store]) -> Room:
    """Return the room of the readers that refuse when they are full: the least of each kind."""
    room = Room()
    for reader in readers:
        limits = reader.limits()
        if limits.full_policy == "refuse":
            own = _of(reader)
            room = Room(
                reader=own.reader if own.is_bounded() else room.reader,
                items=_less(room.items, own.items),
                bytes=_less(room.bytes, own.bytes),
            )
    return room


def outstanding_bytes(store: Store) -> int:
    """Return how many bytes wait for a reader or are in its hands."""
    head = store.status_head()
    touched = fold.find_touched(store.recent(head), is_long=is_long(head))
    held = touched.where(F.col("_state") == CLAIMED).select("_seq")
    seqs = candidates.waiting(store, head).select("_seq").unionByName(held)
    rows = store.items().join(seqs, "_seq", "left_semi")
    total = rows.agg(F.sum(bytes_of(store.user_schema()))).collect()[0][0]
    return int(total or 0)


def _of(reader: Store) -> Room:
    limits = reader.limits()
    items = limits.max_items
    return Room(
        reader=reader.registered().name,
        items=None if items is None else max(0, items - reader.outstanding(reader.status_head())),
        bytes=None if limits.max_bytes is None else limits.max_bytes - outstanding_bytes(reader),
    )


def _less(a: int | None, b: int | None) -> int | None:
    return min((n for n in (a, b) if n is not None), default=None)
