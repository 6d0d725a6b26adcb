"""The way in: puts that gathered become one enqueue, and each gets its own answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import DataFrame
from pyspark.sql.types import DoubleType, StructField, StructType, TimestampType

from spark_queue.errors import SchemaMismatchError
from spark_queue.front.gather import Gather
from spark_queue.queue import DeltaQueue

_OPTIONAL = {
    "available_at": TimestampType(),
    "expires_at": TimestampType(),
    "cost": DoubleType(),
}


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

    item: Mapping[str, Any]
    future: Future[PutResult]


class Intake:
    """Enqueues what gathers, one group after another.

    Parameters
    ----------
    into : DeltaQueue
        The queue.
    puts : Gather
        Where puts wait.
    on_written : callable
        Called after each group that was written.
    """

    def __init__(
        self, into: DeltaQueue, puts: Gather[Put], *, on_written: Callable[[], None]
    ) -> None:
        self._into = into
        self._puts = puts
        self._on_written = on_written
        self._schema = into.schema

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
        except BaseException as exc:  # noqa: BLE001 - whatever it is, all who wait are told
            for put in fitting:
                put.future.set_exception(exc)
            return
        for put, result in zip(fitting, results, strict=True):
            put.future.set_result(result)
        self._on_written()

    def _is_fitting(self, put: Put) -> bool:
        try:
            return self._fits(put)
        except Exception as exc:  # noqa: BLE001 - what is no mapping at all fails alone, too
            put.future.set_exception(exc)
            return False

    def _fits(self, put: Put) -> bool:
        """Tell whether an item has the queue's columns; else its own future alone fails."""
        known = {*self._schema.names, *_OPTIONAL}
        wrong = [name for name in self._schema.names if name not in put.item]
        why = "is missing in the item"
        if not wrong:
            wrong = [name for name in put.item if name not in known]
            why = "is not a column of the queue"
        if wrong:
            put.future.set_exception(SchemaMismatchError(wrong[0], why))
        return not wrong

    def _enqueued(self, items: Sequence[Mapping[str, Any]]) -> list[PutResult]:
        done = self._into.enqueue(self._frame(items), on_full="partial")
        rows = done.outcomes.select("_seq", "outcome", "duplicate_of").collect()
        return [PutResult(*row) for row in sorted(rows, key=lambda row: int(row[0]))]

    def _frame(self, items: Sequence[Mapping[str, Any]]) -> DataFrame:
        extra = [name for name in _OPTIONAL if any(name in item for item in items)]
        fields = [*self._schema.fields, *(StructField(n, _OPTIONAL[n]) for n in extra)]
        schema = StructType([StructField(f.name, f.dataType) for f in fields])
        rows = [tuple(item.get(field.name) for field in fields) for item in items]
        return self._into.main_store.spark.createDataFrame(rows, schema)
