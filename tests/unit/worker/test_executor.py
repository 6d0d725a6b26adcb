"""What runs on an executor, called as Spark calls it: record batches in, outcomes out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from spark_queue.errors import Reject
from spark_queue.executor import run_batches, run_items

SIZES = StructType([StructField("size", LongType())])


def batch(*items: tuple[int, str | None]) -> pa.RecordBatch:
    """Make a batch of items: their seq and group."""
    rows = [{"_seq": seq, "name": f"item-{seq}", "_group_key": group} for seq, group in items]
    types = [("_seq", pa.int64()), ("name", pa.string()), ("_group_key", pa.string())]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(types))


def outcomes(batches: Any) -> list[tuple[int, str, str | None]]:
    """Return the outcomes as (seq, outcome, error)."""
    rows = [row for found in batches for row in found.to_pylist()]
    return [(row["_seq"], row["outcome"], row["error"]) for row in rows]


def fail(*_: object) -> None:
    """Raise, as a handler may."""
    raise ValueError("no")


def reject(*_: object) -> None:
    """Send what is given to the dead letters."""
    raise Reject("never")


def test_every_item_of_a_batch_is_acked() -> None:
    """A batch handler that returns nothing acks all items of the batch."""
    run = run_batches(lambda _: None, None)
    assert outcomes(run([batch((1, None), (2, None)), batch((3, None))])) == [
        (1, "ack", None),
        (2, "ack", None),
        (3, "ack", None),
    ]


@pytest.mark.parametrize(
    ("handler", "outcome", "error"),
    [(fail, "nack", "ValueError: no"), (reject, "dead", "Reject: never")],
)
def test_a_batch_fails_as_one(handler: Any, outcome: str, error: str) -> None:
    """What a batch handler raises is the outcome of all items of that batch, and of no other."""
    calls: list[int] = []

    def second_fails(table: pa.Table) -> None:
        calls.append(table.num_rows)
        if len(calls) == 2:
            handler(table)

    run = run_batches(second_fails, None)
    assert outcomes(run([batch((1, None)), batch((2, None), (3, None)), batch((4, None))])) == [
        (1, "ack", None),
        (2, outcome, error),
        (3, outcome, error),
        (4, "ack", None),
    ]


def test_results_of_a_batch_go_to_their_items() -> None:
    """A table with ``_seq`` gives each item its result; one that is not named has none."""

    def sizes(_: pa.Table) -> pa.Table:
        return pa.table({"_seq": [2, 1], "size": [20, 10]})

    rows = [
        row
        for found in run_batches(sizes, SIZES)([batch((1, None), (2, None), (3, None))])
        for row in found.to_pylist()
    ]
    assert [row["result"] for row in rows] == [{"size": 10}, {"size": 20}, None]


def test_a_failed_batch_has_no_results() -> None:
    """Items that failed have the column of results, and nothing in it."""
    (found,) = run_batches(fail, SIZES)([batch((1, None))])
    assert found.to_pylist() == [
        {"_seq": 1, "outcome": "nack", "error": "ValueError: no", "result": None}
    ]


def test_a_group_stops_at_its_first_failure() -> None:
    """Items behind a failed one of their group are released; other groups go on."""

    def second_fails(item: dict[str, Any]) -> None:
        if item["_seq"] == 2:
            fail()

    run = run_items(second_fails, None)
    assert outcomes(run([batch((1, "a"), (2, "a"), (3, "a")), batch((4, "a"), (5, "b"))])) == [
        (1, "ack", None),
        (2, "nack", "ValueError: no"),
        (3, "release", None),
        (4, "release", None),
        (5, "ack", None),
    ]


def test_a_rejected_item_holds_nobody_up() -> None:
    """A rejected item is dead, and its group goes on."""

    def first_is_bad(item: dict[str, Any]) -> None:
        if item["_seq"] == 1:
            reject()

    assert outcomes(run_items(first_is_bad, None)([batch((1, "a"), (2, "a"))])) == [
        (1, "dead", "Reject: never"),
        (2, "ack", None),
    ]
