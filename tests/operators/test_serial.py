"""Grouped serial: what may run now of each group."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, functions as F

from spark_queue.errors import InvalidArgumentError
from spark_queue.operators import distinct, fair_take, serial_heads, serial_runs
from tests.operators.conftest import Frame

SCHEMA = "grp string, at int"


def places(df: DataFrame) -> list[int]:
    """Return which rows a frame has."""
    return sorted(row["at"] for row in df.collect())


def waiting(frame: Frame) -> DataFrame:
    """Make three groups and two rows without one."""
    rows = [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("c", 6), (None, 7), (None, 8)]
    return frame(rows, SCHEMA)


def test_the_first_of_each_group_may_run(frame: Frame) -> None:
    """Of a group with nothing running its first row may run; without a group, every row."""
    df = waiting(frame)
    heads = serial_heads(df, "grp", order_by="at")
    assert heads.schema == df.schema
    assert places(heads) == [1, 4, 5, 7, 8]


def test_what_runs_takes_a_slot_of_its_group(frame: Frame) -> None:
    """A group with as many rows running as its limit starts none; a row in no group holds none."""
    active = frame([("a", "w1"), (None, "w2")], "grp string, worker string")
    assert places(serial_heads(waiting(frame), "grp", order_by="at", active=active)) == [4, 5, 7, 8]
    two = serial_heads(waiting(frame), "grp", order_by="at", active=active, limit=2)
    assert places(two) == [1, 4, 5, 6, 7, 8]


def test_a_run_is_consecutive_and_the_whole_group_is_its(frame: Frame) -> None:
    """A run takes the next rows of a group together, and none of a group that has one running."""
    df = waiting(frame)
    assert places(serial_runs(df, "grp", order_by="at", length=2)) == [1, 2, 4, 5, 6, 7, 8]
    active = frame([("a",)], "grp string")
    runs = serial_runs(df, "grp", order_by="at", length=2, active=active)
    assert places(runs) == [4, 5, 6, 7, 8]


def test_the_order_may_descend_and_the_group_be_of_parts(frame: Frame) -> None:
    """Order and group are columns or expressions; a group that is null in a part is none."""
    rows = [("x", 1, 1), ("X", 1, 2), ("x", 2, 3), ("x", None, 4), ("x", None, 5)]
    df = frame(rows, "name string, shard int, at int")
    group: list[str | Column] = [F.lower("name").alias("low"), "shard"]
    assert places(serial_heads(df, group, order_by=F.desc("at"))) == [2, 3, 4, 5]
    active = frame([("x", 2)], "low string, shard int")
    assert places(serial_heads(df, group, order_by="at", active=active)) == [1, 4, 5]


def test_the_operators_compose(frame: Frame) -> None:
    """Distinct, then serial, then fair: a frame of what to run next, as a queue would choose."""
    rows = [
        ("p1", "a", "big", 1),
        ("p1", "a", "big", 2),
        ("p2", "a", "big", 3),
        ("p3", "b", "big", 4),
        ("p4", "c", "big", 5),
        ("p5", "d", "small", 6),
        ("p6", "e", "small", 7),
    ]
    df = frame(rows, "path string, folder string, tenant string, at int")
    running = frame([("p4", "c"), ("p0", "d")], "path string, folder string")
    chosen = (
        df.transform(distinct, "path", order_by="at", in_flight=running)
        .transform(serial_heads, "folder", order_by="at", active=running)
        .transform(fair_take, 3, "tenant", order_by="at")
    )
    assert [(r["path"], r["round"]) for r in chosen.collect()] == [
        ("p1", 1.0),
        ("p6", 1.0),
        ("p3", 2.0),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": "group"}, "group: there is no column 'group'; did you mean 'grp'"),
        ({"limit": 0}, "limit is 0: it must be a whole number of at least 1"),
        ({"order_by": []}, r"order_by is \[\]"),
    ],
)
def test_bad_input_fails_the_call(frame: Frame, options: dict[str, Any], message: str) -> None:
    """What cannot be chosen from is refused before any plan, by name and value."""
    given: dict[str, Any] = {"group": "grp", "order_by": "at", **options}
    with pytest.raises(InvalidArgumentError, match=message):
        serial_heads(waiting(frame), **given)
    with pytest.raises(InvalidArgumentError, match="length is 0"):
        serial_runs(waiting(frame), "grp", order_by="at", length=0)
    with pytest.raises(InvalidArgumentError, match="active has no column 'grp'"):
        serial_heads(waiting(frame), "grp", order_by="at", active=frame([(1,)], "a int"))
