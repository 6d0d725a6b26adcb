"""Enqueues as Spark decides them: a frame evaluated once, its rows, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from spark_queue.delta.input import key_rules
from spark_queue.delta.input.columns import OrderBy, add_keys, of_spark
from spark_queue.delta.plans import frames
from spark_queue.delta.plans.stage import Stage, collect, evaluate, stage_rows
from spark_queue.delta.store import by_spark
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import ITEM, QUEUE_COLUMNS, REFUSED, TRACE
from spark_queue.delta.tables.settings import Settings
from spark_queue.tracing import Traces

#: Rows up to which a frame is brought here, to be decided without Spark: in memory, or by SQL.
_FEW = 10_000
_MANY = 200_000


class SparkFrame:
    """A frame that was evaluated, as the decision of its step needs it."""

    def __init__(self, store: Store, marked: DataFrame, *, is_decidable: bool) -> None:
        self.store = store
        self._marked = marked
        self._stage: Stage | None = None
        self.rows = _collect(store, marked) if is_decidable else None
        """The rows, if they are few and such as can be decided in this process."""

    def is_empty(self) -> bool:
        """Tell whether there is nothing to enqueue."""
        return (self.stage().count if self.rows is None else self.rows.num_rows) == 0

    def stage(self) -> Stage:
        """Return the rows, numbered by Spark."""
        if self._stage is None:
            self._stage = stage_rows(self._marked)
        return self._stage


def _collect(store: Store, marked: DataFrame) -> pa.Table | None:
    """Return the rows of a frame where they are decided here; ``None`` where they are too many."""
    # Each look is a job of Spark's, and the first of them evaluates the frame.
    return collect(marked, _MANY if Snapshot(store).are_files_read else _FEW)


def frame(
    store: Store,
    df: object,
    order_by: OrderBy,
    settings: Settings,
    extra: Sequence[str],
    *,
    is_decidable: bool,
    trace: Traces = None,
) -> SparkFrame:
    """Check a frame, compute its keys, and evaluate it."""
    schema = by_spark.user_schema(store)
    key_rules.require_same_texts(store.name, settings, of_spark(schema))
    # What were items before have what they entered with, in any format.
    is_again = bool(extra)
    if trace is not None and not isinstance(trace, str):
        df, extra = frames.traced(df, trace, order_by), (*extra, TRACE)
    given = frames.of(store, df)
    if not is_again:
        store.require_inputs(given.columns)
    inputs = add_keys(given, schema, settings.config, order_by, extra=extra)
    if isinstance(trace, str):
        inputs = inputs.withColumn(TRACE, F.lit(trace))
    return SparkFrame(store, evaluate(inputs), is_decidable=is_decidable)


def outcomes(store: Store, step: int, logged: pa.Table | None) -> DataFrame:
    """Return what became of each row of an enqueue, as it was logged."""
    rows = _logged(store, step, logged).where(F.col("_kind").isin(ITEM, REFUSED))
    refused = F.when(F.col("_duplicate_of").isNull(), "refused").otherwise("duplicate")
    outcome = F.when(F.col("_kind") == ITEM, "inserted").otherwise(refused)
    users = [c for c in rows.columns if c not in QUEUE_COLUMNS.names]
    return rows.select(
        *users, "_seq", outcome.alias("outcome"), F.col("_duplicate_of").alias("duplicate_of")
    )


def _logged(store: Store, step: int, logged: pa.Table | None) -> DataFrame:
    if logged is None:
        return store.queue.read().where(F.col("_step") == step).orderBy("_seq")
    schema = by_spark.user_schema(store).add("_seq", "long").add("_kind", "string")
    schema = schema.add("_duplicate_of", "long")
    return store.spark.createDataFrame(logged.select(schema.names).sort_by("_seq"), schema)
