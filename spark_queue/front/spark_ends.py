"""Ends of a front over a queue in a Spark session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_queue.checks import require_kind
from spark_queue.claim import Claim
from spark_queue.clock import Clock
from spark_queue.columns import measures, values
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import QueueExistsError, QueueNotFoundError
from spark_queue.front.queue_ends import Inlet, Outlet, Told
from spark_queue.log.schema import BOUNDED, INPUTS, OPTIONAL_COLUMNS, inputs_of, require_inputs
from spark_queue.log.spark import spark_types
from spark_queue.log.spark.spark_types import struct_of
from spark_queue.overriding import override
from spark_queue.processing.loop import worker_id
from spark_queue.queue_views import main_store_of, store_of
from spark_queue.reader import SparkVerbs
from spark_queue.state.request import EnqueueRules
from spark_queue.state.store import Store
from spark_queue.views import items


class SparkInlet(Inlet):
    """Inlet of a queue that was opened by Spark.

    Parameters
    ----------
    into : DeltaQueue
        The queue.
    """

    def __init__(self, into: DeltaQueue) -> None:
        self._into = into
        self._store = main_store_of(into)
        self._schema = into.schema
        self._inputs = inputs_of(self._schema.names)
        optional = [one for one in struct_of(OPTIONAL_COLUMNS) if one.name in self._inputs]
        self._columns = StructType([*self._schema.fields, *optional])
        self._measures = values.measures(self._columns)

    @override
    def misfits(self, items: Sequence[Any]) -> list[Exception | None]:
        return [self._misfit(item) for item in items]

    @override
    def enqueue(
        self,
        items: Sequence[Mapping[str, Any]],
        traces: Sequence[str | None],
        rules: EnqueueRules,
    ) -> Iterable[Told]:
        named: dict[str, Any] = {"trace": traces} if any(traces) else {}
        done = self._into.enqueue(self._table(items), **rules.options(), **named)
        told = ("_seq", "outcome", "duplicate_of", "holder")
        return done.read_told() or done.outcomes.select(*told).collect()

    def _misfit(self, item: Mapping[str, Any]) -> Exception | None:
        try:
            measures.require_fit(item, self._measures, self._inputs)
            if not INPUTS.keys().isdisjoint(item):
                require_inputs(self._store.columns(), item)
            for given in BOUNDED.values():
                if given.name in self._inputs:
                    given.require([item.get(given.name)])
        except Exception as exc:  # noqa: BLE001 - an item's own code may raise anything
            return exc
        return None

    def _table(self, items: Sequence[Mapping[str, Any]]) -> pa.Table:
        given = [name for name in self._inputs if any(name in item for item in items)]
        columns = {
            name: [item.get(name) for item in items] for name in (*self._schema.names, *given)
        }
        return spark_types.table(columns, self._columns)


class SparkOutlet(Outlet):
    """Outlet of a queue that was opened by Spark.

    Parameters
    ----------
    source : SparkVerbs
        The queue, or one of its readers.
    """

    def __init__(self, source: SparkVerbs) -> None:
        super().__init__(store_of(source))
        self._source = source

    @override
    def claim(self, limit: int, lease: timedelta | None) -> Claim:
        return self._source.claim(limit, lease=lease, worker_id=worker_id(self.store))

    @override
    def rows(self, claim: Claim) -> Iterable[Mapping[str, Any]]:
        return items.collect(self.store, claim.lease)


def ends(into: DeltaQueue, source: SparkVerbs) -> tuple[Inlet, Outlet]:
    """Return where a front puts items into a queue, and takes them by one of its readers."""
    require_kind("into", into, DeltaQueue)
    require_kind("reader", source, SparkVerbs)
    return SparkInlet(into), SparkOutlet(source)


def is_queue(source: object) -> bool:
    """Whether this is a queue, and not a session."""
    return isinstance(source, DeltaQueue)


def open_queue(
    spark: SparkSession, path: str, schema: StructType | str, clock: Clock | None
) -> Store:
    """Return the logs of a queue, which is made where it is missing."""
    with suppress(QueueNotFoundError):
        return main_store_of(DeltaQueue.open(spark, path, clock=clock))
    # Another process may make it at this very moment.
    with suppress(QueueExistsError):
        return main_store_of(DeltaQueue.create(spark, path, schema, clock=clock))
    return main_store_of(DeltaQueue.open(spark, path, clock=clock))
