from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from spark_queue.delta.plans import order


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count turns from three rows on, in parts that hold several."""
    monkeypatch.setattr(order, "_SORTED", 2)
    monkeypatch.setattr(order, "_PARTS", 7)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("limit", [3, 41, 199, 200, 1_000])
def test_counted_turns_give_the_rows_that_a_sort_gives(spark: SparkSession, limit: int) -> None:
    """A large limit takes exactly the first rows by priority, turn and sequence."""
    rng = random.Random(limit)  # noqa: S311 - it has to be repeatable, not secret
    rows = [(rng.randrange(3), float(rng.randrange(30)), seq) for seq in range(200)]
    turns = spark.createDataFrame(rows, "_priority int, _turn double, _seq long")

    found = order.first(turns.localCheckpoint(), limit).collect()

    in_order = sorted(rows, key=lambda row: (-row[0], row[1], row[2]))
    assert sorted(map(tuple, found)) == sorted(in_order[:limit])


@pytest.mark.usefixtures("small")
def test_counted_turns_are_those_that_are_asked_for(spark: SparkSession) -> None:
    """What comes first is decided by the columns of a rank, not by an item's own."""
    rows = [(n % 2, float(-n), n, n % 3, float(n)) for n in range(60)]
    names = "_priority int, _turn double, _seq long, _rank_priority int, _rank_turn double"
    turns = spark.createDataFrame(rows, names).localCheckpoint()

    found = order.first(turns, 25, order.OF_GROUP).collect()

    in_order = sorted(rows, key=lambda row: (-row[3], row[4]))
    assert sorted(map(tuple, found)) == sorted(in_order[:25])


@pytest.mark.usefixtures("small")
def test_nothing_is_first_of_nothing(spark: SparkSession) -> None:
    """No rows give no rows, whatever the limit."""
    turns = spark.createDataFrame([], "_priority int, _turn double, _seq long")

    assert order.first(turns, 5).collect() == []
