"""What all operators have in common: they only make a plan."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from spark_queue.operators import (
    distinct,
    distinct_refused,
    fair_order,
    fair_rank,
    fair_take,
    serial_heads,
    serial_runs,
)
from tests.operators.conftest import Frame

PLANS = {
    "distinct": lambda df: distinct(df, "key", order_by="at", in_flight=df.limit(0)),
    "distinct_refused": lambda df: distinct_refused(df, "key", order_by="at"),
    "fair_rank": lambda df: fair_rank(df, "key", order_by="at", weights={"a": 2.0}),
    "fair_rank skewed": lambda df: fair_rank(df, "key", order_by="at", skewed=True),
    "fair_order": lambda df: fair_order(df, "key", order_by="at", cost="at"),
    "fair_take": lambda df: fair_take(df, 2, "key", order_by="at"),
    "serial_heads": lambda df: serial_heads(df, "key", order_by="at", active=df.limit(0)),
    "serial_runs": lambda df: serial_runs(df, "key", order_by="at", length=2),
}


@pytest.mark.parametrize("name", PLANS)
def test_an_operator_runs_nothing(frame: Frame, name: str) -> None:
    """A frame that fails when it is read is planned without an error, and fails when it is used."""
    df = frame([("a", 1)], "key string, at int")
    broken = df.withColumn("key", F.raise_error(F.lit("this was read")).cast("string"))
    planned = PLANS[name](broken)
    assert planned.columns[:2] == ["key", "at"]
    with pytest.raises(Exception, match="this was read"):
        planned.collect()


@pytest.mark.parametrize("name", PLANS)
def test_an_empty_frame_stays_empty(frame: Frame, name: str) -> None:
    """Of nothing comes nothing, with the same columns."""
    planned = PLANS[name](frame([], "key string, at int"))
    assert planned.columns[:2] == ["key", "at"]
    assert planned.collect() == []
