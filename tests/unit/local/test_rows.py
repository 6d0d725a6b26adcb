"""What enters a queue without Spark: rows of any form, each key once, in the order that is told."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from spark_queue.errors import (
    InvalidArgumentError,
    ReaderFullError,
    SchemaMismatchError,
)
from spark_queue.local_queue import LocalQueue
from spark_queue.reader_config import ReaderConfig
from tests.unit.local.conftest import Make


def _ids(queue: LocalQueue) -> list[str]:
    return [row["id"] for row in queue.claim(100).rows]


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": "a", "n": 1}, {"id": "b", "n": None}],
        pa.table({"id": ["a", "b"], "n": pa.array([1, None], pa.int32())}),
        pd.DataFrame({"id": ["a", "b"], "n": pd.array([1, None], "Int32")}),
    ],
    ids=["dicts", "arrow", "pandas"],
)
def test_rows_enter_whatever_holds_them(make: Make, rows: list[dict[str, object]]) -> None:
    """A list of dicts, a table and a frame of the same rows are the same items."""
    queue = make("id string, n int")

    done = queue.enqueue(rows)

    assert (done.step, done.inserted, done.duplicates) == (1, 2, 0)
    found = queue.claim(2).table.select(["id", "n", "_seq"]).to_pylist()
    assert found == [{"id": "a", "n": 1, "_seq": 1}, {"id": "b", "n": None, "_seq": 2}]


def test_one_dict_is_one_row(make: Make) -> None:
    """There is no need for a list of one."""
    queue = make()

    assert queue.enqueue({"id": "a"}).inserted == 1
    assert _ids(queue) == ["a"]


def test_of_each_row_it_is_told_what_became_of_it(make: Make) -> None:
    """A row whose key is taken names its holder, of the same rows or of earlier ones."""
    queue = make("id string, key string", dedup_key="key")
    queue.enqueue({"id": "a", "key": "k"})

    done = queue.enqueue(
        [{"id": "b", "key": "k"}, {"id": "c", "key": "l"}, {"id": "d", "key": "l"}]
    )

    assert (done.inserted, done.duplicates) == (1, 2)
    table: pa.Table = done.outcomes
    assert table.select(["id", "_seq", "outcome", "duplicate_of", "holder"]).to_pylist() == [
        {"id": "b", "_seq": 2, "outcome": "duplicate", "duplicate_of": 1, "holder": "waits"},
        {"id": "c", "_seq": 3, "outcome": "inserted", "duplicate_of": None, "holder": None},
        {"id": "d", "_seq": 4, "outcome": "duplicate", "duplicate_of": 3, "holder": "waits"},
    ]


def test_rows_enter_in_the_order_of_columns(make: Make) -> None:
    """Where columns are named they say what comes first; else rows keep their order."""
    queue = make("id string, n int")
    rows = [{"id": "a", "n": 2}, {"id": "b", "n": 1}, {"id": "c", "n": 1}]

    queue.enqueue(rows, order_by=["n", "id"])
    queue.enqueue(rows)

    assert _ids(queue) == ["b", "c", "a", "a", "b", "c"]


def test_a_cost_is_paid_in_turns(make: Make) -> None:
    """An item that costs two turns lets another key have two in between."""
    queue = make("id string", fair_key="substring(id, 1, 1)")
    costs = {"a1": 2.0, "a2": 1.0, "b1": 1.0, "b2": 1.0, "b3": 1.0}

    queue.enqueue([{"id": name, "cost": cost} for name, cost in costs.items()])

    assert _ids(queue) == ["b1", "a1", "b2", "a2", "b3"]


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ({"id": "a"}, "n"),
        ({"id": "a", "n": 1, "more": 1}, "more"),
        ({"id": "a", "n": "one"}, "n"),
        ({"id": "a", "n": 2**31}, "n"),
        ({"id": "a", "n": 1, "cost": 0.0}, "cost"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_by_its_column(
    make: Make, row: dict[str, object], column: str
) -> None:
    """Rows enter as they are given, or none of them does."""
    queue = make("id string, n int")

    with pytest.raises(SchemaMismatchError, match=f"column '{column}'"):
        queue.enqueue([{"id": "z", "n": 1}, row] if len(row) == 2 else [row])

    assert queue.counts()["ready"] == 0


@pytest.mark.parametrize("key", [None, "id"])
def test_text_that_is_no_utf_8_is_refused(make: Make, key: str | None) -> None:
    """A table of Arrow with such a column is refused by its name, and nothing is written."""
    queue = make("id string, t string", dedup_key=key)
    stray = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    with pytest.raises(SchemaMismatchError, match=r"column 't': does not fit string: .*UTF"):
        queue.enqueue(pa.table({"id": ["a"], "t": stray}))
    assert queue.counts()["ready"] == 0


def test_what_holds_no_rows_is_refused(make: Make) -> None:
    """A text is no list of rows, an order names columns, and a choice is one of those known."""
    queue = make()

    with pytest.raises(InvalidArgumentError, match="rows are of type str"):
        queue.enqueue("abc")
    with pytest.raises(InvalidArgumentError, match="order_by names 'other'"):
        queue.enqueue({"id": "a"}, order_by="other")
    with pytest.raises(InvalidArgumentError, match="on_duplicate is 'maybe'"):
        queue.enqueue({"id": "a"}, on_duplicate="maybe")  # type: ignore[arg-type]


def test_a_full_reader_refuses_what_it_has_no_room_for(make: Make) -> None:
    """The first row without room, and all behind it, are refused; by bytes as by items."""
    queue = make()
    queue.reader("small", config=ReaderConfig(max_items=2))

    with pytest.raises(ReaderFullError, match="small"):
        queue.enqueue([{"id": name} for name in "abc"])
    done = queue.enqueue([{"id": name} for name in "abcd"], on_full="partial")

    assert (done.inserted, done.refused) == (2, 2)
    outcomes: Any = done.outcomes
    assert outcomes["outcome"].to_pylist() == ["inserted"] * 2 + ["refused"] * 2
    queue.reader("small").claim(1).ack()
    assert queue.enqueue([{"id": "e"}, {"id": "f"}], on_full="partial").inserted == 1
    queue.reader("small", config=ReaderConfig(max_bytes=4))
    assert queue.enqueue([{"id": name * 2} for name in "gh"], on_full="partial").inserted == 1
