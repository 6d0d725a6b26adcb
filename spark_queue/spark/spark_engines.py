"""Engines of a session of Spark: SQL in this process over Spark's rows, and Spark's own."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructField, TimestampType

from spark_queue.log.heads import StatusHead
from spark_queue.log.schema import CLAIMED, ITEM, RATE, RECENT, RENEWAL, STATUS_COLUMNS
from spark_queue.log.session_options import small_steps
from spark_queue.log.spark.spark_types import struct_of
from spark_queue.overriding import override
from spark_queue.spark.frames import bring, frame_of, having, plain
from spark_queue.spark.spark_entries import BroughtEntries, FrameEntries
from spark_queue.sql import log_rows
from spark_queue.sql.catalogue import over, query, statement
from spark_queue.sql.database import Database
from spark_queue.sql.log_rows import DEBTS, TooManyRowsError, Within
from spark_queue.sql.sql_engines import LogRows, SqlEngine, Tables
from spark_queue.state import spark_frames
from spark_queue.state.store import Store

#: How a view says that rows are spread by a column.
_SPREAD = re.compile(r"/\*\+ REPARTITION\(\$parts, \w+\) \*/")

#: How a view says that a table is sent to where the rows are, and up to how many lines it is.
_SENT = re.compile(r"/\*\+ BROADCAST\(\w\) \*/ ")
_FEW_LINES = 200_000


def engines_of(store: Store) -> Iterator[SqlEngine]:
    """Return the engines of a store's session, the one for small steps first."""
    if small_steps(store.session) != "spark":
        yield SqlEngine(Database, BroughtRows(), BroughtEntries())

    def start(variants: Mapping[str, str]) -> SparkDatabase:
        return SparkDatabase(store.spark, variants)

    yield SqlEngine(start, FrameRows(), FrameEntries(), "spark")


class SparkDatabase(Tables):
    """Tables of Spark, and views over them; see :class:`Database`."""

    draws_jitter = True
    parts = 1
    lines = 0

    def __init__(self, spark: SparkSession, variants: Mapping[str, str]) -> None:
        self.variants = dict(variants)
        self._spark = spark
        self._tables: dict[str, DataFrame] = {}

    def close(self) -> None:
        """Forget the tables."""
        self._tables.clear()

    @override
    def give(self, name: str, *rows: DataFrame | pa.Table) -> None:
        frames = [frame_of(self._spark, one) for one in rows]
        self._tables[name] = reduce(
            lambda one, more: one.unionByName(more, allowMissingColumns=True), frames
        )

    @override
    def keep(self, name: str, limit: int = 0) -> None:
        self._tables[name] = self.find(name, limit)

    @override
    def rows(self, name: str, limit: int = 0) -> pa.Table:
        return self._select(name, limit).toArrow()

    @override
    def find(self, name: str, limit: int = 0) -> DataFrame:
        return self._select(name, limit).localCheckpoint()

    @override
    def table(self, name: str) -> DataFrame:
        return self._tables[name] if name in self._tables else self._select(name)

    @override
    def query(self, text: str) -> list[dict[str, Any]]:
        rows = self._run(query(text, self._tables.keys(), self.variants)).toArrow()
        found: list[dict[str, Any]] = rows.to_pylist()
        return found

    @override
    def query_each(self, texts: Sequence[str]) -> list[list[dict[str, Any]]]:
        return [self.query(text) for text in texts]

    @override
    def is_empty(self, name: str) -> bool:
        return self._tables[name].isEmpty()

    @override
    def release(self, name: str) -> None:
        del self._tables[name]

    def _select(self, name: str, limit: int = 0) -> DataFrame:
        there = self._tables.keys() - {name}
        return self._run(statement(name, there, self.variants, limit))

    def _run(self, made: str) -> DataFrame:
        if self.lines > _FEW_LINES:
            made = _SENT.sub("", made)
        text, used = over(_SPREAD.sub(self._spread, made), self._tables)
        tables: dict[str, Any] = {f"sq_{one}": self._tables[one] for one in used}
        return self._spark.sql(text, **tables)

    def _spread(self, hint: re.Match[str]) -> str:
        """Return a hint to spread rows; none where all of them fit into one part."""
        return hint[0].replace("$parts", str(self.parts)) if self.parts > 1 else ""


class FrameRows(LogRows[Any]):
    """Rows of both logs as frames of Spark; see :mod:`~spark_queue.sql.log_rows`."""

    @override
    def states_of(self, store: Store, head: StatusHead) -> Any:
        return _states(spark_frames.recent_rows(store, head))

    @override
    def debts_of(self, store: Store, head: StatusHead) -> pa.Table:
        steps = F.col("_step").between(head.checkpoint.step, head.step)
        is_debt = (F.col("_kind") == RATE) & steps
        return store.status.read().where(is_debt).select(*DEBTS).toArrow()

    @override
    def with_step(self, states: Any, rows: DataFrame | pa.Table, step: int) -> Any:
        frame = frame_of(states.sparkSession, rows)
        return states.unionByName(_states(spark_frames.of_step(frame, step)))

    @override
    def entered_of(self, store: Store, within: Within) -> Any:
        return plain(_items(store).where(_may_wait(store, within)).select(*within.names))

    @override
    def items_of(self, store: Store, found: Any, names: Sequence[str]) -> Any:
        return having(plain(_items(store).select(*names)), found, "seq")

    @override
    def grants_of(self, store: Store, head: StatusHead, lease: int) -> Any:
        is_move = F.col("_kind").isin(ITEM, RENEWAL)
        is_since = is_move & F.col("_step").between(lease, head.step)
        return plain(store.status.read().where(is_since).select(*RECENT))

    @override
    def outcomes_of(self, outcomes: DataFrame) -> Any:
        return outcomes.select(F.col("_seq").alias("seq"), "outcome", "error", "after")

    @override
    def with_output(self, store: Store, leases: Collection[int]) -> dict[int, str]:
        is_claim = (F.col("_kind") == ITEM) & (F.col("_state") == CLAIMED)
        granted = store.status.read().where(is_claim & F.col("_step").isin(list(leases)))
        named = granted.where(F.col("_body").isNotNull()).select("_step", "_claim_id")
        return dict(named.distinct().collect())

    @override
    def status_rows(self, found: Any, said: Mapping[str, object]) -> Any:
        return found.select(*(_logged_rows(one, found, said) for one in struct_of(STATUS_COLUMNS)))

    @override
    def joined(self, rows: DataFrame | pa.Table, others: DataFrame | pa.Table) -> Any:
        spark = rows.sparkSession if isinstance(others, pa.Table) else others.sparkSession
        return frame_of(spark, rows).unionByName(frame_of(spark, others), allowMissingColumns=True)


class BroughtRows(FrameRows):
    """The same rows, brought to this process.

    Raises
    ------
    TooManyRowsError
        When there are more than half of what fits: the driver of Spark holds them as well.
    """

    @override
    def states_of(self, store: Store, head: StatusHead) -> pa.Table:
        return bring(super().states_of(store, head), _most(store, head))

    @override
    def with_step(self, states: pa.Table, rows: DataFrame | pa.Table, step: int) -> pa.Table:
        if not isinstance(rows, pa.Table):
            raise TooManyRowsError
        return log_rows.with_step(states, rows, step)

    @override
    def entered_of(self, store: Store, within: Within) -> pa.Table:
        return bring(super().entered_of(store, within), _most(store, within.head))

    @override
    def items_of(self, store: Store, found: pa.Table, names: Sequence[str]) -> pa.Table:
        return super().items_of(store, found, names).toArrow()

    @override
    def grants_of(self, store: Store, head: StatusHead, lease: int) -> pa.Table:
        rows = super().grants_of(store, head, lease)
        return bring(rows, head.log_rows if lease > head.checkpoint.step else None)

    @override
    def outcomes_of(self, outcomes: DataFrame) -> pa.Table:
        return bring(super().outcomes_of(outcomes), None)

    @override
    def status_rows(self, found: pa.Table, said: Mapping[str, object]) -> pa.Table:
        return log_rows.status_rows(found, said)

    @override
    def joined(self, rows: pa.Table, others: pa.Table) -> pa.Table:
        return log_rows.joined(rows, others)


def _states(rows: DataFrame) -> DataFrame:
    # The generation of an item is in the place of its row's already.
    return plain(rows.withColumn("_item_gen", F.lit(None).cast("int")))


def _items(store: Store) -> DataFrame:
    return spark_frames.items(store).where(F.col("_kind") == ITEM)


def _may_wait(store: Store, within: Within) -> Column:
    """Bound the stored tags by literals, so that files are skipped."""
    is_later = F.col("_step") > within.head.checkpoint.queue_step
    found = F.lit(False)
    for priority in store.queue_head().tops:
        least, most = (F.lit(end) for end in within.bounds(priority))
        is_near = (F.col("_round") <= most) & ((F.col("_round") >= least) | is_later)
        found = or_(found, (F.col("_priority") == priority) & is_near)
    return found if within.before is None else found & (F.col("_seq") < within.before)


def _most(store: Store, head: StatusHead) -> int:
    """Return how many rows a claim reads at most: open ones, and all since the checkpoint."""
    return store.outstanding(head) + head.log_rows


def _logged_rows(field: StructField, found: DataFrame, said: Mapping[str, object]) -> Column:
    """Return a column of the status log."""
    name = field.name.removeprefix("_")
    if name in said:
        value = said[name]
        if isinstance(value, tuple):
            column = F.when(F.col("state") == value[1], F.lit(value[0]))
        else:
            column = F.lit(value)
    elif name not in found.columns:
        column = F.lit(None)
    elif isinstance(field.dataType, TimestampType):
        column = F.timestamp_micros(name)
    else:
        column = F.col(name)
    return column.cast(field.dataType).alias(field.name)
