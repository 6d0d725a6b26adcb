"""What a type checker accepts of the public API, and what it catches; checked, never run.

Each ``type: ignore`` stands where a mistake is to be caught: the gate's mypy warns of one that
catches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pyarrow as pa

from spark_queue import (
    DeltaQueue,
    LocalQueue,
    ProcessResult,
    QueueConfig,
    Reader,
    RetryPolicy,
)
from spark_queue.testing import (
    ManualClock,
    assert_done,
    assert_order,
    drain,
    fail_next,
    lose_lease,
    memory_queue,
)


class _TypedTable:
    """A table of a package with types; those of pyarrow may be missing."""

    @property
    def num_rows(self) -> int:
        return 0


def _of_an_item(item: dict[str, Any]) -> Mapping[str, Any] | None:
    return item


def _of_a_table(table: _TypedTable) -> _TypedTable | None:
    return table


def _of_an_untyped_table(table: pa.Table) -> pa.Table:
    return table


async def _of_an_awaited_item(item: dict[str, Any]) -> dict[str, Any] | None:
    return item


async def _of_an_awaited_table(table: pa.Table) -> pa.Table:
    return table


def _of_nothing() -> None: ...


def settings_are_known_by_name_and_type(queue: DeltaQueue, reader: Reader) -> None:
    """A setting that is misspelt, fixed at creation or of another type is caught."""
    queue.configure(max_in_flight=3, weights={"a": 2.0}, retry=RetryPolicy(), on_failure="skip")
    reader.configure(lease=timedelta(minutes=1), max_attempts=None)
    queue.configure(max_in_fligth=3)  # type: ignore[call-arg]
    queue.configure(dedup_key="path")  # type: ignore[call-arg]
    queue.configure(lease=60)  # type: ignore[arg-type]
    queue.configure(on_failure="stop")  # type: ignore[arg-type]
    queue.config.changed(max_in_fligth=3)  # type: ignore[call-arg]


def handlers_are_of_the_kind_that_is_named(queue: DeltaQueue, reader: Reader) -> None:
    """Of an item by default, of a table with ``per="batch"``; the other one is caught."""
    queue.process(_of_an_item, max_per_group=10, returns="n int", output="./facts")
    queue.process(_of_a_table, per="batch", limit=10)
    queue.process(_of_an_untyped_table, per="batch")
    queue.process(lambda item: {"n": item["n"]})
    reader.process(lambda table: table, per="batch")
    queue.process(_of_a_table)  # type: ignore[arg-type]
    queue.process(_of_an_item, per="batch")  # type: ignore[call-overload]
    queue.process(_of_nothing)  # type: ignore[arg-type]
    queue.process(lambda _: 3)  # type: ignore[arg-type, return-value]
    queue.process(_of_an_item, per="table")  # type: ignore[call-overload]
    queue.process(_of_an_item, limt=3)  # type: ignore[call-overload]


def handlers_without_spark_are_of_the_kind_that_is_named(queue: LocalQueue) -> None:
    """The same without Spark, where it is said what runs them as well."""
    queue.process(_of_an_item, max_per_group=10, returns="n int", output="./facts", max_workers=4)
    queue.process(_of_a_table, per="batch", limit=10, using="processes")
    queue.process(_of_an_untyped_table, per="batch", returns=pa.schema([("n", pa.int64())]))
    queue.process(lambda item: {"n": item["n"]}, using="threads")
    queue.process(_of_an_awaited_item, returns="n int", max_workers=100)
    queue.process(_of_an_awaited_table, per="batch")
    queue.process(_of_a_table)  # type: ignore[arg-type]
    queue.process(_of_an_item, per="batch")  # type: ignore[call-overload]
    queue.process(_of_an_item, using="fibers")  # type: ignore[call-overload]
    queue.process(_of_an_item, workers=4)  # type: ignore[call-overload]


def streams_take_the_same_handlers(queue: DeltaQueue) -> None:
    """``process_stream`` tells the kinds of handlers apart as ``process`` does."""
    queue.process_stream(_of_an_item, "./checkpoint", trigger=timedelta(seconds=1))
    queue.process_stream(_of_a_table, "./checkpoint", per="batch")
    queue.process_stream(_of_a_table, "./checkpoint")  # type: ignore[arg-type]
    queue.process_stream(_of_an_item, "./checkpoint", per="batch")  # type: ignore[call-overload]


def queues_of_a_test_are_queues(mails: LocalQueue) -> None:
    """What is driven and asserted in memory is a ``LocalQueue``, and items are dictionaries."""
    queue: LocalQueue = memory_queue("n int", QueueConfig(dedup_key="n"), clock=ManualClock())
    result: ProcessResult = drain(queue, _of_an_item, through_delays=True)
    drain(mails, _of_a_table, per="batch", limit=10)
    fail_next(queue, 2, error=ValueError("no"), n=[1, 2])
    lost: int = lose_lease(queue.claim()) + lose_lease(queue, n=1)
    paths: list[Any] = [item["n"] for item in assert_done(queue, {"n": 1}, count=result.acked)]
    assert_order(queue, n=paths)
    assert_order(queue, n=lost)  # type: ignore[arg-type]
    assert_done(queue, count="2")  # type: ignore[arg-type]
    drain(queue, _of_a_table)  # type: ignore[arg-type]
    drain(queue, _of_an_item, per="batch")  # type: ignore[call-overload]
