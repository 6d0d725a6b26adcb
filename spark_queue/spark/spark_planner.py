"""Spark as the planner of a queue's steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import IntegralType

from spark_queue.errors import (
    LONGEST_WAIT,
    InvalidArgumentError,
    SchemaMismatchError,
    require_after,
)
from spark_queue.log.job_descriptions import named
from spark_queue.log.schema import DEAD, EXPIRED, ITEM, moves_of
from spark_queue.overriding import override
from spark_queue.reader_config import ReaderConfig
from spark_queue.saying import OUTCOMES, WAITING
from spark_queue.spark import spark_enqueue
from spark_queue.spark.frames import user_columns
from spark_queue.spark.spark_engines import engines_of
from spark_queue.spark.spark_enqueue import SparkFrame
from spark_queue.spark.spark_look import SparkLook
from spark_queue.sql.decisions import GivenRows, Leaving, LogPosition
from spark_queue.sql.sql_engines import SqlEngine
from spark_queue.sql.sql_planner import SqlPlanner
from spark_queue.state import spark_frames
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.wording import shorten


@dataclass(frozen=True, slots=True)
class _LeavingFrame(Leaving):
    """Items that leave, in frames of Spark."""

    ended: DataFrame
    """All that ended, also what goes nowhere."""
    rows: DataFrame
    """What goes there, with ``_step`` and ``_seq``, in the order in which it ended."""

    @override
    def count(self) -> int:
        return self.rows.count()

    @override
    def first(self, count: int | None = None) -> DataFrame:
        rows = self.rows if count is None else self._in_order().limit(count)
        return rows.drop("_step", "_seq")

    @override
    def position_behind(self, count: int) -> LogPosition:
        last = self._in_order().offset(count - 1).first()
        assert last is not None  # noqa: S101 - for the type checker: so many there are
        is_done = (F.col("_step") == last["_step"]) & (F.col("_seq") <= last["_seq"])
        return LogPosition(last["_step"], self.ended.where(is_done).count())

    def _in_order(self) -> DataFrame:
        # A limit takes a frame's first rows only where its plan says their order.
        return self.rows.orderBy("_step", "_seq")


def leaving(
    at: Snapshot, reader_config: ReaderConfig, target: str, since: LogPosition
) -> _LeavingFrame | None:
    """Return the items that ended since and go to a target; ``None`` for none."""
    ended = at.store.status.read().where(
        (F.col("_kind") == ITEM)
        & F.col("_state").isin(EXPIRED, DEAD)
        & F.col("_step").between(since.step, at.status.step)
    )
    fresh = ended
    if since.done:
        done = ended.where(F.col("_step") == since.step).orderBy("_seq").limit(since.done)
        fresh = ended.join(done.select("_step", "_seq"), ["_step", "_seq"], "left_anti")
    meant = fresh.where(_goes_to(reader_config, target)).select("_step", "_seq", "_attempts")
    rows = _rows(at.store, meant).localCheckpoint()
    return None if rows.isEmpty() else _LeavingFrame(ended, rows)


def _goes_to(reader_config: ReaderConfig, target: str) -> Column:
    """Whether an item that ended goes to a target."""
    goes = F.lit(False)
    if reader_config.expire_to == target:
        goes = goes | (F.col("_state") == EXPIRED)
    many = F.lit(reader_config.punt_many_to is not None) & (
        F.col("_attempts") >= reader_config.punt_many_at
    )
    dead = F.col("_state") == DEAD
    if reader_config.punt_many_to == target:
        goes = goes | (dead & many)
    if reader_config.punt_to == target:
        goes = goes | (dead & ~many)
    return goes


def _rows(store: Store, meant: DataFrame) -> DataFrame:
    """Return items as rows to enqueue, with their errors and origins."""
    items = spark_frames.items(store).where(F.col("_kind") == ITEM)
    names = user_columns(items)
    kept = moves_of(names)
    origin = F.concat(F.lit(f"{store.name}+{store.registered().name}/"), F.col("_seq"))
    return (
        items.select(*names, "_seq", *(F.col(column).alias(name) for column, name in kept.items()))
        .join(meant, "_seq")
        .orderBy("_step", "_seq")
        .select(
            *names,
            *kept.values(),
            F.col("_attempts").alias("_errors"),
            origin.alias("_body"),
            "_step",
            "_seq",
        )
    )


def of(store: Store) -> SparkPlanner:
    """Return the planner of a store's session."""
    return SparkPlanner(store)


@dataclass(frozen=True, slots=True)
class SparkPlanner(SqlPlanner):
    """Planner that also uses the session of its store."""

    look: ClassVar = SparkLook

    @named("read what is enqueued")
    @override
    def frame(self, given: GivenRows) -> SparkFrame:
        return spark_enqueue.frame(self.store, given)

    @override
    def outcomes(self, step: int, logged: pa.Table | None) -> DataFrame:
        return spark_enqueue.outcomes(self.store, step, logged)

    @override
    def session_engines(self, what: str) -> Iterator[SqlEngine]:
        del what
        return engines_of(self.store)

    @named("forward items")
    @override
    def leaving(
        self, at: Snapshot, reader_config: ReaderConfig, target: str, since: LogPosition
    ) -> _LeavingFrame | None:
        return leaving(at, reader_config, target, since)


def check(outcomes: DataFrame) -> DataFrame:
    """Return outcomes, evaluated once; the errors are those of :meth:`Claim.settle`."""
    if not isinstance(outcomes, DataFrame):
        raise InvalidArgumentError(f"outcomes is {shorten(outcomes)}: it must be a frame of Spark")
    for column in ("_seq", "outcome"):
        if column not in outcomes.columns:
            raise SchemaMismatchError(column, f"is missing; the frame has {outcomes.columns}")
    kind = outcomes.schema["_seq"].dataType
    if not isinstance(kind, IntegralType):
        raise SchemaMismatchError("_seq", f"is {kind.simpleString()}, not a whole number")
    error, after = (
        F.col(name) if name in outcomes.columns else F.lit(None) for name in ("error", "after")
    )
    rows = outcomes.select(
        F.col("_seq").cast("long"),
        "outcome",
        error.cast("string").alias("error"),
        F.when(F.col("outcome").isin(*WAITING), after.cast("double")).alias("after"),
    ).localCheckpoint()
    known = F.col("outcome").isin(*OUTCOMES)
    nobody = F.col("_seq").isNull()
    wrong = rows.where(~known | F.col("outcome").isNull() | nobody).first()
    if wrong is not None and wrong["_seq"] is None:
        raise InvalidArgumentError(f"a row with outcome {wrong['outcome']!r} has no _seq")
    if wrong is not None:
        raise InvalidArgumentError(
            f"outcome {wrong['outcome']!r} of seq {wrong['_seq']}: use {', '.join(OUTCOMES)}"
        )
    twice = rows.groupBy("_seq").count().where("count > 1").first()
    if twice is not None:
        raise InvalidArgumentError(f"seq {twice['_seq']} has {twice['count']} outcomes; give one")
    return _with_waits(rows)


def _with_waits(rows: DataFrame) -> DataFrame:
    """Return outcomes with how long their items wait in microseconds, given in seconds."""
    after = F.col("after")
    is_missing = (F.col("outcome") == "defer") & after.isNull()
    wrong = rows.where(is_missing | ~after.between(0, LONGEST_WAIT.total_seconds())).first()
    if wrong is not None:
        require_after(f"after of seq {wrong['_seq']}", wrong["after"])
    return rows.withColumn("after", F.rint(after * 1_000_000).cast("long"))
