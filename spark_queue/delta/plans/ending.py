"""Items that are moved by what they are, and not by a claim: found in the logs, and their rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone

from pyspark.sql import Column, DataFrame, Row, Window, functions as F
from pyspark.sql.types import TimestampType

from spark_queue.acting import operator
from spark_queue.delta.arrow.where import Where
from spark_queue.delta.input.values import bytes_of
from spark_queue.delta.planner import Moved
from spark_queue.delta.plans import candidates, capacity, snapshot
from spark_queue.delta.store import by_spark
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import ITEM, READY, SCHEDULE, moves_of
from spark_queue.reader_config import ReaderConfig
from spark_queue.results import SAMPLED, SAMPLES, Affected


def matching(store: Store, where: Where, states: tuple[str, ...]) -> DataFrame:
    """Return the items in some states that are meant."""
    current = snapshot.status(by_spark.items(store), store.status.read())
    return snapshot.choose(current.where(F.col("_state").isin(*states)), where)


# rule again: redrive of an ended item
def not_redriven(store: Store, found: DataFrame) -> DataFrame:
    """Leave out the items that were enqueued again."""
    return found.join(snapshot.successors(store.queue.read()), "_seq", "left_anti")


def again(store: Store, found: DataFrame) -> DataFrame:
    """Return items as a frame to enqueue again, with ``_origin``: the item that each row was."""
    users = store.user_columns()
    kept = inputs(moves_of(users))
    return found.orderBy("_seq").select(*quote(users), F.col("_seq").alias("_origin"), *kept)


def count_affected(store: Store, found: DataFrame, becomes: str) -> Affected:
    """Count items by their state, and show the first."""
    found = found.localCheckpoint()
    states = {row[0]: row[1] for row in found.groupBy("_state").count().orderBy("_state").collect()}
    total = sum(states.values())
    shown = found.orderBy("_seq").limit(SAMPLES)
    shown = shown.select(*quote([*store.user_columns(), *SAMPLED]))
    zoned = [one.name for one in shown.schema if isinstance(one.dataType, TimestampType)]
    return Affected(
        total,
        states=states,
        becomes={becomes: total} if total else {},
        sample=[_tell(row, zoned) for row in shown.collect()],
    )


def _tell(row: Row, zoned: Collection[str]) -> dict[str, object]:
    """Return a row as plain data; its times get the offset that Spark leaves out."""
    said = row.asDict(recursive=True)
    times = {name: said[name].astimezone(timezone.utc) for name in zoned if said[name] is not None}
    return {**said, **times}


def inputs(names: Mapping[str, str]) -> list[Column]:
    """Return columns of the log under the names that rows to enqueue have them by."""
    return [F.col(column).alias(name) for column, name in names.items()]


def quote(names: Sequence[str]) -> list[Column]:
    """Return columns by names, which may hold any character."""
    return [F.col(f"`{name.replace('`', '``')}`") for name in names]


def due(store: Store, now: datetime) -> DataFrame:
    """Return the ready items whose time is over."""
    current = snapshot.status(by_spark.items(store), store.status.read())
    return current.where((F.col("_state") == READY) & (_expires_at(store.limits()) <= now))


# rule again: deadline of an item
def _expires_at(limits: ReaderConfig) -> Column:
    """Return when an item expires for a reader: by itself, or because it has become too old."""
    own = F.col("_expires_at")
    if limits.max_age is None:
        return own
    return F.least(own, F.col("_enqueued_at") + F.lit(limits.max_age))


def oldest(store: Store, most: int) -> DataFrame:
    """Return the oldest items that wait, so that no more than so many are left in all."""
    over = store.outstanding(store.status_head()) - most
    return _ready(store).orderBy("_seq").limit(max(0, over))


def oldest_by_bytes(store: Store, most: int) -> DataFrame:
    """Return the oldest items that wait, so that no more than so many bytes are left in all."""
    over = capacity.outstanding_bytes(store) - most
    sizes = by_spark.items(store).where(F.col("_kind") == ITEM)
    sizes = sizes.select("_seq", bytes_of(by_spark.user_schema(store)).alias("_bytes"))
    before = Window.orderBy("_seq").rowsBetween(Window.unboundedPreceding, -1)
    sized = _ready(store).join(sizes, "_seq")
    passed = F.coalesce(F.sum("_bytes").over(before), F.lit(0))
    return sized.withColumn("_passed", passed).where(F.col("_passed") < over)


def end(found: DataFrame, state: str, now: datetime, error: str | None) -> Moved:
    """Return the rows by which items come to a state with all that they had."""
    found = found.select("_seq", "_gen", "_state", "_attempts", "_losses", *SCHEDULE)
    found, was = _count(found)
    rows = found.withColumns(
        {
            "_kind": F.lit(ITEM),
            "_state": F.lit(state),
            "_at": F.lit(now),
            "_error": F.lit(error).cast("string"),
        }
    )
    return Moved(rows=_sign(rows), was=was)


def revive(found: DataFrame, now: datetime) -> Moved:
    """Return the rows by which items are ready again, as if nothing had been."""
    found, was = _count(found.select("_seq", "_gen", "_state", *SCHEDULE))
    columns = {"_kind": F.lit(ITEM), "_state": F.lit(READY), "_at": F.lit(now)}
    nothing = {"_attempts": F.lit(0), "_losses": F.lit(0)}
    gone = {"_available_at": _never(), "_expires_at": _never()}
    return Moved(rows=_sign(found.withColumns({**columns, **nothing, **gone})), was=was)


def _sign(rows: DataFrame) -> DataFrame:
    """Say who moves items, where somebody has said so."""
    who = operator()
    return rows if who is None else rows.withColumn("_worker_id", F.lit(who))


def _count(found: DataFrame) -> tuple[DataFrame, dict[str, int]]:
    """Return items, computed, and how many of them there are by state."""
    found = found.localCheckpoint()
    return found, {row[0]: row[1] for row in found.groupBy("_state").count().collect()}


def _never() -> Column:
    return F.lit(None).cast("timestamp")


def _ready(store: Store) -> DataFrame:
    waiting = candidates.waiting(store, store.status_head())
    return waiting.withColumn("_state", F.lit(READY))
