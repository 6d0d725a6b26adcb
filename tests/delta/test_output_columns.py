"""Outputs whose columns, types or constraints do not take what a handler returns."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue, LocalQueue, QueueConfig, RetryPolicy
from spark_queue.commands.evidence import Output
from spark_queue.errors import OutputRefusedError, SchemaMismatchError
from spark_queue.log.step_events import StepFacts

MARKS = "_seq BIGINT, _claim_id STRING"


@pytest.fixture
def steps() -> list[StepFacts]:
    """Return where the listener of the queue puts the facts of its steps."""
    return []


@pytest.fixture
def queue(spark: SparkSession, queue_path: str, steps: list[StepFacts]) -> DeltaQueue:
    """Eight items in two groups, each tried once."""
    config = QueueConfig(group_key="grp", max_attempts=1, retry=RetryPolicy(delay=timedelta(0)))
    made = DeltaQueue.create(
        spark, queue_path, "id long, grp string", config, listener=steps.append
    )
    rows = spark.range(8).selectExpr("id", "concat('g', id % 2) AS grp")
    made.enqueue(rows, order_by="id")
    return made


def _table(spark: SparkSession, place: str, columns: str, *checks: str) -> str:
    out = f"{place}/out"
    spark.sql(f"CREATE TABLE delta.`{out}` ({columns}, {MARKS}) USING delta")
    for check in checks:
        spark.sql(f"ALTER TABLE delta.`{out}` ADD CONSTRAINT few CHECK ({check})")
    return out


def _never(item: dict[str, Any]) -> dict[str, Any]:
    raise AssertionError(f"the handler ran for {item}")


#: Columns of an output, those of results, and what is wrong with them.
MISFITS = [
    ("n INT", "n bigint", "column 'n': is int in the output .*, and bigint in returns"),
    ("n STRING", "n int", "column 'n': is string in the output .*, and int in returns"),
    ("n INT", "n int, m int", "column 'm': is missing in the output"),
    ("n INT, m INT NOT NULL", "n int", "column 'm': is NOT NULL in the output"),
    ("s STRUCT<a: INT>", "s struct<a:int,b:int>", "column 's': is struct<a:int> in the output"),
    ("l ARRAY<BIGINT>", "l array<int>", "column 'l': is array<bigint> in the output"),
]


@pytest.mark.parametrize("kind", ["path", "name"])
def test_columns_that_do_not_fit_are_refused_before_a_claim(
    spark: SparkSession, queue: DeltaQueue, place: str, steps: list[StepFacts], kind: str
) -> None:
    """The error names the column and both types; no handler runs, and nothing is claimed."""
    for columns, returns, problem in MISFITS:
        name = f"o{uuid.uuid4().hex}"
        out = f"{place}/{name}" if kind == "path" else name
        table = f"delta.`{out}`" if kind == "path" else name
        spark.sql(f"CREATE TABLE {table} ({columns}, {MARKS}) USING delta")

        with pytest.raises(SchemaMismatchError, match=problem):
            queue.process(_never, returns=returns, output=out)

    assert [step.action for step in steps] == ["enqueue"]
    assert queue.stats().ready == 8


def test_a_number_that_widens_and_columns_that_may_be_null_fit(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """What the table holds without loss is written as its type; what it has beside is null."""
    out = _table(spark, place, "N BIGINT, d DECIMAL(12,2), x DOUBLE, more STRING")

    def handle(item: dict[str, Any]) -> dict[str, Any]:
        return {"n": item["id"], "d": None, "x": 0.5}

    done = queue.process(handle, returns="n int, d decimal(9,1), x float", output=out)

    assert done.acked == 8
    rows = spark.read.format("delta").load(out).orderBy("_seq").collect()
    assert [(row["N"], row["x"], row["more"]) for row in rows] == [(n, 0.5, None) for n in range(8)]


def test_a_column_that_the_table_fills_may_be_missing(spark: SparkSession) -> None:
    """A session shows nothing of what generates a column that is NOT NULL."""
    name = f"o{uuid.uuid4().hex}"
    filled = "m INT NOT NULL GENERATED ALWAYS AS (n + 1)"
    spark.sql(f"CREATE TABLE {name} (n INT, {filled}, {MARKS}) USING delta")
    results = spark.sql("SELECT 1 AS n, 1L AS _seq, 'a' AS _claim_id").schema

    assert "m" in Output(spark, name).ensure(results).names


@pytest.mark.parametrize(
    ("columns", "check", "wrong", "reason"),
    [
        ("n INT NOT NULL", None, {"n": None}, "column 'n' is None"),
        ("n INT", "n <> 99", {"n": 99}, r"CHECK constraint 'few' \(n <> 99\)"),
        ("n INT, `a.b` INT NOT NULL", "n < 50", {"n": 99, "a.b": 1}, "CHECK constraint 'few'"),
        ("s STRUCT<a: INT NOT NULL>", None, {"s": {"a": None}}, r"column 's\.a' is NOT NULL"),
        ("v VARCHAR(1)", None, {"v": "ab"}, r"column 'v' is varchar\(1\)"),
    ],
)
def test_a_row_that_the_output_refuses_is_its_item_s_failure(
    spark: SparkSession,
    queue: DeltaQueue,
    place: str,
    columns: str,
    check: str | None,
    wrong: dict[str, Any],
    reason: str,
) -> None:
    """The item is charged, with the reason; its neighbours are done, its group in order."""
    out = _table(spark, place, columns, *([] if check is None else [check]))
    right: dict[str, Any] = {"n": 1, "s": {"a": 1}, "v": "a", "a.b": 2}
    types = {"n": "n int", "s": "s struct<a:int>", "v": "v string", "a.b": "`a.b` int"}
    returns = ", ".join(types[name] for name in wrong)

    def handle(item: dict[str, Any]) -> dict[str, Any]:
        return wrong if item["id"] == 2 else {name: right[name] for name in wrong}

    done = queue.process(handle, returns=returns, output=out, limit=8)

    assert (done.acked, done.dead, done.released) == (7, 1, 2)
    (dead,) = queue.dead().collect()
    assert dead["id"] == 2
    assert re.search(reason, dead["_error"])
    rows = spark.read.format("delta").load(out).collect()
    assert sorted(row["_seq"] for row in rows) == [1, 2, 4, 5, 6, 7, 8]


def test_a_refusal_that_no_row_explains_is_told_by_an_error_of_ours(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """Nobody is charged for what nobody can name; the items are ready again."""
    out = _table(spark, place, "n INT, m INT GENERATED ALWAYS AS (n + 1)")

    with pytest.raises(OutputRefusedError, match=r"refuses rows of claim .* Generated Column"):
        queue.process(lambda _: {"n": 1, "m": 7}, returns="n int, m int", output=out)

    assert queue.stats().ready == 8
    assert {row["_attempts"] for row in queue.status().collect()} == {0}


def test_without_spark_a_row_without_a_value_is_its_item_s_failure(
    spark: SparkSession, queue: DeltaQueue, queue_path: str, place: str
) -> None:
    """A column that is NOT NULL is asked of each row; a CHECK is left to Spark, before a claim."""
    out = _table(spark, place, "n INT NOT NULL, k INT")
    alone = LocalQueue.open(queue_path, durability="process")

    def handle(item: dict[str, Any]) -> dict[str, Any]:
        return {"n": None if item["id"] == 2 else 1}

    with pytest.raises(SchemaMismatchError, match="column 'n': is NOT NULL in the output"):
        alone.process(_never, returns="k int", output=out)
    done = alone.process(handle, returns="n int", output=out, limit=8)

    assert (done.acked, done.dead, done.released) == (7, 1, 2)
    assert "column 'n' is None" in alone.dead()["_error"][0].as_py()
    rows = spark.read.format("delta").load(out).collect()
    assert sorted(row["_seq"] for row in rows) == [1, 2, 4, 5, 6, 7, 8]
    assert not queue.stats().ready
