"""How the items of a claim are given to several workers, and what of them comes back."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from spark_queue.processing import executor
from spark_queue.processing.crew import Crew, Using, lines_of, spread
from spark_queue.processing.outcome_rows import columns_of

ITEMS = pa.schema([("n", pa.int64()), ("_seq", pa.int64()), ("_group_key", pa.string())])


def _items(*rows: tuple[int, str | None]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"n": seq, "_seq": seq, "_group_key": group} for seq, group in rows], schema=ITEMS
    )


def _crew(handler: Any, using: Using = "threads", **options: Any) -> Crew:
    given = {"per": "item", "max_workers": 2, "columns": columns_of(None), **options}
    return Crew(handler=handler, using=using, **given)


def _told(outcomes: pa.Table) -> dict[int, str]:
    columns = outcomes["_seq"].to_pylist(), outcomes["outcome"].to_pylist()
    return dict(zip(*columns, strict=True))


# rule: work of a group
def test_a_group_is_a_line_in_its_order() -> None:
    """Lines come as their first items do; an item without a group is a line of its own."""
    groups = ["a", None, "b", "a", None, "a"]
    assert lines_of(groups, [4, 7, 1, 2, 9, 5]) == [[3, 0, 5], [1], [2], [4]]


def test_lines_are_spread_evenly_and_stay_whole() -> None:
    """No worker gets a part of a line, and none gets nothing while another has two lines."""
    assert spread([[0, 1, 2], [3], [4], [5], [6]], 2) == [[0, 1, 2, 6], [3, 4, 5]]
    assert spread([[0], [1]], 5) == [[0], [1]]


@pytest.mark.parametrize("using", ["threads", "processes"])
@pytest.mark.parametrize("per", ["item", "batch"])
def test_when_it_is_cut_the_rest_goes_back(using: Using, per: str) -> None:
    """No item begins any more, and none is charged."""
    calls: list[object] = []
    crew = _crew(calls.append, using, per=per)
    crew.cut.set()

    found = crew.work(_items((1, None), (2, "g"), (3, "g")), blocks=True)

    assert _told(found) == {1: "release", 2: "release", 3: "release"}
    assert found["together"].to_pylist() == [0, 0, 0]
    assert calls == []


def test_one_that_fails_ends_the_others() -> None:
    """What is raised in a handler, but not by it, comes out when nobody works any more."""
    begun, ended = threading.Event(), threading.Event()

    def handle(item: dict[str, Any]) -> None:
        if item["n"] == 1:
            assert begun.wait(20)
            raise KeyboardInterrupt
        begun.set()
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        _crew(handle).work(_items((1, None), (2, None), (3, None)), blocks=True)
    assert ended.is_set()


def test_a_service_that_is_ended_charges_nobody() -> None:
    """SIGTERM goes to all processes of a service: a child that dies of it was not killed by it."""
    crew = _crew(lambda _: os.kill(os.getpid(), signal.SIGTERM), "processes")
    threading.Timer(0.3, crew.cut.set).start()
    found = crew.work(_items((1, "g"), (2, "g")), blocks=True)
    assert _told(found) == {1: "release", 2: "release"}
    # The first may have begun.
    assert found.sort_by("_seq")["together"].to_pylist() == [None, 0]

    crew = _crew(lambda _: os.kill(os.getpid(), signal.SIGTERM), "processes")
    found = crew.work(_items((1, None)), blocks=True)
    # Which signal it was is said by test_apart: a copy of many threads may die of another one.
    assert _told(found) == {1: "lose"}


def test_outcomes_have_the_same_columns_with_spark_and_without() -> None:
    """What is told of an item does not depend on who called the handler."""
    returns = StructType([StructField("n", LongType())])
    for spark, plain in ((None, None), (returns, pa.schema([("n", pa.int64())]))):
        (found,) = executor.run_items(lambda _: None, spark)([_items((1, None)).to_batches()[0]])
        assert found.schema == columns_of(plain)
