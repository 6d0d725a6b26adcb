"""The producer of a front: puts that gathered become one enqueue, and each gets its own answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from spark_queue.delta.input import values
from spark_queue.delta.tables import rows
from spark_queue.delta.tables.schema import OPTIONAL_COLUMNS
from spark_queue.delta.tables.spark_types import struct_of
from spark_queue.errors import SchemaMismatchError
from spark_queue.front.batcher import Batcher, promise, settle
from spark_queue.journal.copies import own
from spark_queue.queue import DeltaQueue


@dataclass(frozen=True, slots=True)
class PutResult:
    """What became of an item that was put."""

    seq: int
    """Its number in the queue, refused or not."""
    outcome: Literal["inserted", "duplicate", "refused"]
    """``refused`` where a reader was full."""
    duplicate_of: int | None = None
    """The item that has its key."""


@dataclass(frozen=True, slots=True)
class Put:
    """An item on its way in."""

    item: Any
    future: Future[PutResult]

    @classmethod
    def of(cls, item: object) -> Put:
        """Put an item as it is now, whatever its owner does with it before it is written."""
        return cls(own(dict(item)) if isinstance(item, Mapping) else item, promise())


class Producer:
    """Enqueues what gathers, one group after another.

    Parameters
    ----------
    into : DeltaQueue
        The queue.
    puts : Batcher
        Where puts wait.
    on_written : callable
        Called after each group that was written.
    """

    def __init__(
        self, into: DeltaQueue, puts: Batcher[Put], *, on_written: Callable[[], None]
    ) -> None:
        self._into = into
        self._puts = puts
        self._on_written = on_written
        self._schema = into.schema
        self._columns = StructType([*self._schema.fields, *struct_of(OPTIONAL_COLUMNS)])
        self._measures = values.measures(self._columns)

    def run(self) -> None:
        """Work until the line is closed and empty."""
        while not self._puts.is_done:
            group = self._puts.take()
            with self._puts.busy():
                self._write(group)

    def _write(self, group: Sequence[Put]) -> None:
        fitting = [put for put in group if self._is_fitting(put)]
        if not fitting:
            return
        try:
            results = self._enqueued([put.item for put in fitting])
            answers = list(zip(fitting, results, strict=True))
        except BaseException as exc:  # noqa: BLE001 - whatever it is, all who wait are told
            for put in fitting:
                settle(put.future.set_exception, exc)
            return
        for put, result in answers:
            settle(put.future.set_result, result)
        self._on_written()

    def _is_fitting(self, put: Put) -> bool:
        """Tell whether the queue can hold an item; else its own future alone fails."""
        try:
            values.require_fit(put.item, self._measures, OPTIONAL_COLUMNS.names)
            _require_cost(put.item.get("cost"))
        except Exception as exc:  # noqa: BLE001 - whatever an item does that is none of ours
            settle(put.future.set_exception, exc)
            return False
        return True

    def _enqueued(self, items: Sequence[Mapping[str, Any]]) -> list[PutResult]:
        done = self._into.enqueue(self._table(items), on_full="partial")
        told = done.told or done.outcomes.select("_seq", "outcome", "duplicate_of").collect()
        return [PutResult(*row) for row in sorted(told, key=lambda row: int(row[0]))]

    def _table(self, items: Sequence[Mapping[str, Any]]) -> pa.Table:
        given = [name for name in OPTIONAL_COLUMNS.names if any(name in item for item in items)]
        columns = {
            name: [item.get(name) for item in items] for name in (*self._schema.names, *given)
        }
        return rows.table(len(items), columns, self._columns)


def _require_cost(cost: float | None) -> None:
    if cost is not None and not 0 < cost < float("inf"):
        raise SchemaMismatchError("cost", f"is {cost!r} in the item; a cost is above 0 and finite")
