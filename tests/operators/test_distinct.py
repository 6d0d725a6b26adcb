"""``distinct`` and its twin: the first of each key, and who lost to whom."""

from __future__ import annotations

from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import Column, DataFrame, functions as F

from spark_queue.errors import InvalidArgumentError
from spark_queue.operators import distinct, distinct_refused
from tests.operators.conftest import Frame

SCHEMA = "path string, at int, size decimal(10,2), tags map<string,array<int>>"


def jobs(frame: Frame, *rows: tuple[str | None, int]) -> DataFrame:
    """Make jobs with columns of several types."""
    return frame([(path, at, None, {"t": [at]}) for path, at in rows], SCHEMA)


def test_the_first_of_each_key_is_kept_whole(frame: Frame) -> None:
    """Of each key the row that comes first stays, with all its columns and their types."""
    df = jobs(frame, ("b", 2), ("a", 3), ("a", 1), ("b", 9))
    expected = jobs(frame, ("a", 1), ("b", 2))
    kept = df.transform(distinct, "path", order_by="at")
    assert kept.schema == df.schema
    assert_df_equality(
        kept.drop("tags"), expected.drop("tags"), ignore_row_order=True, ignore_nullable=True
    )
    assert sorted(row["tags"]["t"][0] for row in kept.collect()) == [1, 2]


def test_the_order_may_descend(frame: Frame) -> None:
    """An order by a descending column keeps the last row of a key."""
    df = jobs(frame, ("a", 1), ("a", 3), ("a", 2))
    assert [row["at"] for row in distinct(df, "path", order_by=F.desc("at")).collect()] == [3]


def test_a_key_in_flight_is_left_out(frame: Frame) -> None:
    """A row whose key is queued or running already is refused, whatever else that frame holds."""
    df = jobs(frame, ("a", 1), ("b", 2))
    running = frame([("a", "worker 7"), ("a", "worker 8")], "path string, holder string")
    kept = distinct(df, "path", order_by="at", in_flight=running)
    assert [row["path"] for row in kept.collect()] == ["b"]


def test_a_null_key_is_no_duplicate(frame: Frame) -> None:
    """Rows without a key all stay, also where something without a key is in flight."""
    df = jobs(frame, (None, 1), (None, 1), ("a", 2))
    running = frame([(None,)], "path string")
    kept = distinct(df, "path", order_by="at", in_flight=running)
    assert sorted(str(row["path"]) for row in kept.collect()) == ["None", "None", "a"]
    assert distinct_refused(df, "path", order_by="at", in_flight=running).count() == 0


def test_a_key_of_several_parts_may_be_expressions(frame: Frame) -> None:
    """A key can be columns and expressions; one that is null in a part is no key."""
    df = frame([("A", 1, 1), ("a", 1, 2), ("a", None, 3), ("a", None, 4)], "k string, d int, n int")
    key: list[str | Column] = [F.lower("k").alias("low"), "d"]
    running = frame([("a", 2)], "low string, d int")
    kept = distinct(df, key, order_by="n", in_flight=running)
    assert sorted(row["n"] for row in kept.collect()) == [1, 3, 4]


def test_without_an_order_one_row_of_each_key_stays(frame: Frame) -> None:
    """Where nothing is said of an order, some row of each key is kept."""
    df = jobs(frame, *[("a", n) for n in range(20)], ("b", 1))
    assert sorted(row["path"] for row in distinct(df, "path").collect()) == ["a", "b"]


def test_the_refused_rows_name_who_they_lost_to(frame: Frame) -> None:
    """A refused row lost to the first row of its key, or to what is in flight."""
    df = jobs(frame, ("a", 1), ("a", 2), ("b", 3), ("b", 4), ("c", 5), ("c", 6))
    running = frame([("b", 77)], "path string, at int")
    refused = distinct_refused(df, "path", order_by="at", in_flight=running)
    found = {
        row["at"]: (row["lost_to"]["in_flight"], row["lost_to"]["winner"]["at"])
        for row in refused.collect()
    }
    assert found == {2: (False, 1), 3: (True, 77), 4: (True, 77), 6: (False, 5)}


def test_what_is_told_of_the_winner_can_be_chosen(frame: Frame) -> None:
    """``winner`` names the columns to tell; what is in flight tells those that it has."""
    df = jobs(frame, ("a", 1), ("a", 2), ("b", 3))
    running = frame([("b",)], "path string")
    refused = distinct_refused(
        df, "path", order_by="at", in_flight=running, winner=["path", "size", "at"]
    )
    winners = {row["at"]: tuple(row["lost_to"]["winner"]) for row in refused.collect()}
    assert winners == {2: ("a", None, 1), 3: ("b", None, None)}


def test_a_winner_of_an_order_by_expressions_must_be_named(frame: Frame) -> None:
    """Where rows are ordered by an expression, ``winner`` says what to tell."""
    df = jobs(frame, ("a", 1), ("a", 2))
    with pytest.raises(InvalidArgumentError, match="say with winner="):
        distinct_refused(df, "path", order_by=F.desc("at"))
    refused = distinct_refused(df, "path", order_by=F.desc("at"), winner=F.col("at") + 1)
    assert [tuple(row["lost_to"]["winner"]) for row in refused.collect()] == [(3,)]


def test_kept_and_refused_are_the_frame(frame: Frame) -> None:
    """Every row is in one of the two frames, and in one only."""
    df = jobs(frame, *[(f"k{n % 7}" if n % 5 else None, n) for n in range(60)])
    running = frame([("k3",)], "path string")
    kept = {r["at"] for r in distinct(df, "path", order_by="at", in_flight=running).collect()}
    lost = distinct_refused(df, "path", order_by="at", in_flight=running).collect()
    refused = {r["at"] for r in lost}
    assert kept | refused == set(range(60))
    assert not kept & refused


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"key": "pth"}, "key: there is no column 'pth'; did you mean 'path'?"),
        ({"key": []}, "key is []: name a column, or several"),
        ({"key": "path", "order_by": "when"}, "order_by: there is no column 'when'"),
        ({"key": "path", "held": "name string"}, "in_flight has no column 'path'"),
    ],
)
def test_unknown_columns_are_named(frame: Frame, call: dict[str, Any], message: str) -> None:
    """A column that is not there fails the call, not the query, and says which and where."""
    options = dict(call)
    if held := options.pop("held", None):
        options["in_flight"] = frame([("a",)], str(held))
    with pytest.raises(InvalidArgumentError, match=message.replace("[", r"\[").split("?")[0]):
        distinct(jobs(frame, ("a", 1)), **options)


def test_a_taken_column_name_is_refused(frame: Frame) -> None:
    """A frame that has the column which the twin adds is refused."""
    df = frame([("a", 1)], "path string, lost_to int")
    with pytest.raises(InvalidArgumentError, match="'lost_to': rename it"):
        distinct_refused(df, "path", order_by="lost_to")
