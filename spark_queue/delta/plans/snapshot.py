"""Items of a queue at a step, their history, and counts.

Views read whole logs; claims never do.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Window, functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from spark_queue.delta.arrow.where import Where, values_of
from spark_queue.delta.input.columns import first_line, sql_expression
from spark_queue.delta.plans import fold
from spark_queue.delta.store import by_spark, existence
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import (
    CLAIMED,
    ITEM,
    QUEUE_COLUMNS,
    READY,
    REFUSED,
    RENEWAL,
    SHOWN,
    TIMES,
)
from spark_queue.errors import InvalidArgumentError
from spark_queue.wording import shorten


def user_columns(queue: DataFrame) -> list[str]:
    """Return the names of the user's columns."""
    return [name for name in queue.columns if name not in QUEUE_COLUMNS.names]


def stream(store: Store) -> DataFrame:
    """Return the items that a reader sees as a stream: the user's columns, ``_seq``, ``_step``."""
    reader = store.spark.readStream.format("delta").option("skipChangeCommits", "true")
    address = store.queue.address
    rows = reader.load(address.target) if address.is_path else reader.table(address.target)
    users = [name for name in rows.columns if name not in QUEUE_COLUMNS.names]
    items = rows.where(F.col("_kind") == ITEM)
    return items.where(F.col("_step") > store.registered().since_step).select(
        *users, "_seq", "_step"
    )


# rule again: newest row of an item
def newest(status: DataFrame) -> DataFrame:
    """Return the newest row of every item that has one, with how often it was claimed."""
    rows = status.where(F.col("_kind") == ITEM)
    row = F.struct(*rows.columns)
    granted = (F.col("_state") == CLAIMED) & (F.col("_lease") == F.col("_step"))
    return rows.groupBy("_seq").agg(
        F.max_by(row, "_step").alias("_newest"),
        F.min(F.when(granted, F.col("_at"))).alias("_first_claimed_at"),
        F.max(F.when(granted, F.col("_at"))).alias("_claimed_at"),
        F.max(F.when(F.col("_error").isNotNull(), F.struct("_step", "_error"))).alias("_failure"),
    )


def status(queue: DataFrame, log: DataFrame) -> DataFrame:
    """Return one row an item: the user's columns, its keys and where it stands.

    Parameters
    ----------
    queue, log : DataFrame
        The item log and the status log, cut at the steps to look at.
    """
    items = queue.where(F.col("_kind") == ITEM)
    mine = newest(log)
    latest = F.col("_newest")
    joined = items.alias("i").join(mine, "_seq", "left")
    stands = joined.select(
        *user_columns(queue),
        "_seq",
        F.coalesce(latest["_state"], F.lit(READY)).alias("_state"),
        F.coalesce(latest["_attempts"], F.col("i._errors"), F.lit(0)).alias("_attempts"),
        F.coalesce(latest["_losses"], F.lit(0)).alias("_losses"),
        F.col("i._dedup_key").alias("_dedup_key"),
        F.col("i._fair_key").alias("_fair_key"),
        F.col("i._group_key").alias("_group_key"),
        *(_find_moved(name) if name in TIMES else F.col(f"i.{name}").alias(name) for name in SHOWN),
        "_first_claimed_at",
        "_claimed_at",
        F.when(~latest["_state"].isin(READY, CLAIMED), latest["_at"]).alias("_finished_at"),
        _when_claimed("_lease").alias("_lease"),
        _when_claimed("_worker_id").alias("_worker_id"),
        _when_claimed("_lease_expires_at").alias("_lease_expires_at"),
        F.col("_failure._error").alias("_error"),
        F.col("i._origin").alias("_origin"),
        F.col("i._step").alias("_step"),
        F.col("i._gen").alias("_gen"),
    )
    return fold.renew(stands, log)


def find_needed(reader: Store, since: int | None = None) -> DataFrame:
    """Return the items that a reader is not done with: ``_seq`` and ``_gen``.

    As :func:`spark_queue.delta.arrow.needed.find_needed` finds them, whose parameters these are.
    """
    if reader.registered().streams:
        return _unread(reader).where(F.lit(since is None))
    if not existence.is_prepared(reader):
        return _unread(reader)
    if since is None:
        rows = status(by_spark.items(reader), reader.status.read())
    else:
        later = (F.col("_kind") == ITEM) & (F.col("_step") > since)
        rows = reader.status.read().where(later)
    return _which(rows.where(F.col("_state").isin(READY, CLAIMED)))


def _unread(reader: Store) -> DataFrame:
    return _which(by_spark.items(reader).where(F.col("_kind") == ITEM))


def _which(rows: DataFrame) -> DataFrame:
    return rows.select("_seq", "_gen")


def choose(items: DataFrame, where: Where) -> DataFrame:
    """Return the items that are meant.

    Raises
    ------
    InvalidArgumentError
        When SQL does not parse, is more than an expression, or names no such column; when a column
        cannot have a value; or when it is an expression of Arrow.
    """
    if isinstance(where, Mapping):
        return items.where(_have(items.schema, where))
    if not isinstance(where, str):
        raise InvalidArgumentError(
            f"where is {where}, an expression of pyarrow.compute, which Spark does not read: say "
            "it in SQL, or name columns with their values"
        )
    predicate = sql_expression("where", where)
    try:
        return items.where(predicate)
    except AnalysisException as exc:
        raise InvalidArgumentError(
            f"where is {shorten(where)}: {first_line(exc)}; the columns are "
            f"{', '.join(items.columns)}"
        ) from exc


def _have(schema: StructType, where: Mapping[str, object]) -> Column:
    """Return the condition that columns have certain values."""
    columns = pa.schema(
        [(one.name, to_arrow_type(one.dataType, timezone="UTC")) for one in schema.fields]
    )
    have = F.lit(True)
    for name, value in where.items():
        known = values_of(columns, name, value).to_pylist()
        column = F.col(f"`{name.replace('`', '``')}`")
        kind = schema[name].dataType
        literals = [F.lit(_read_written(one)).cast(kind) for one in known if one is not None]
        have &= column.isin(literals) | (column.isNull() & F.lit(None in known))
    return F.coalesce(have, F.lit(False))


def _read_written(value: object) -> object:
    """Return a value as Spark reads it, in any time zone of its session."""
    return value.isoformat() if isinstance(value, datetime) else value


def successors(queue: DataFrame) -> DataFrame:
    """Return which items were redriven: ``_seq``, and ``_successor``, the newest item of those.

    Parameters
    ----------
    queue : DataFrame
        The item log.
    """
    redriven = queue.where((F.col("_kind") == ITEM) & F.col("_origin").isNotNull())
    newest = redriven.groupBy("_origin").agg(F.max("_seq").alias("_successor"))
    return newest.withColumnRenamed("_origin", "_seq")


def _find_moved(column: str) -> Column:
    """Return a time of an item: the newest that its transitions say, as far as they say any.

    A transition has all times, or those of a journal none.
    """
    latest = F.col("_newest")
    is_timed = latest["_enqueued_at"].isNotNull()
    return F.when(is_timed, latest[column]).otherwise(F.col(f"i.{column}")).alias(column)


def _when_claimed(column: str) -> Column:
    latest = F.col("_newest")
    return F.when(latest["_state"] == CLAIMED, latest[column])


def history(store: Store, seq: int) -> DataFrame:
    """Return every transition of an item, oldest first."""
    enqueued = store.queue.read().where((F.col("_seq") == seq) & F.col("_kind").isin(ITEM, REFUSED))
    first = enqueued.select(
        F.lit("queue").alias("log"),
        "_step",
        F.col("_enqueued_at").alias("_at"),
        F.when(F.col("_kind") == ITEM, READY).otherwise(REFUSED).alias("_state"),
        F.col("_duplicate_of"),
        F.col("_origin"),
    )
    moved = store.status.read().where((F.col("_seq") == seq) & (F.col("_kind") == ITEM))
    later = moved.select(
        F.lit("status").alias("log"),
        "_seq",
        "_step",
        "_at",
        "_state",
        "_attempts",
        "_losses",
        "_lease",
        "_claim_id",
        "_worker_id",
        "_lease_expires_at",
        "_available_at",
        "_error",
    )
    moves = later.unionByName(_renewed(later, store.status.read())).drop("_seq")
    return first.unionByName(moves, allowMissingColumns=True).orderBy("log", "_step")


# rule again: renewal of a lease
def _renewed(moves: DataFrame, log: DataFrame) -> DataFrame:
    """Return the renewals of the leases of items, as transitions of each, by their own rows."""
    following = F.lead("_step").over(Window.partitionBy("_seq").orderBy("_step"))
    held = moves.withColumn("_until", following).where(F.col("_state") == CLAIMED)
    renewals = log.where(F.col("_kind") == RENEWAL)
    is_of = (F.col("h._lease") == F.col("r._lease")) & (F.col("r._step") > F.col("h._step"))
    is_of &= F.coalesce(F.col("r._step") < F.col("h._until"), F.lit(True))
    joined = held.alias("h").join(renewals.alias("r"), is_of)
    said = ("_step", "_at", "_lease_expires_at")
    return joined.select(
        *(F.col(f"r.{n}" if n in said else f"h.{n}").alias(n) for n in moves.columns)
    )
