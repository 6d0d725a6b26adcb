"""Enqueues decided by Spark: a frame evaluated once, its rows, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F, types as T

from spark_queue.columns import key_rules
from spark_queue.columns.columns import UNFIT, UNSET, add_keys, of_spark
from spark_queue.errors import InvalidArgumentError
from spark_queue.log import instants
from spark_queue.log.schema import BOUNDED, ITEM, QUEUE_COLUMNS, REFUSED, TRACE, require_inputs
from spark_queue.spark import frames
from spark_queue.sql.decisions import GivenRows
from spark_queue.state import spark_frames
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store

#: ``monotonically_increasing_id`` keeps the partition above this bit.
_PARTITION_BIT = 33

#: Rows of one step at most, so that a seq never overflows.
_MAX_ROWS = 1 << 40

#: The setting that Spark names where a driver would get more than it may.
_LIMIT_OF_RESULTS = "spark.driver.maxResultSize"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A frame that was evaluated once, with facts about its rows."""

    rows: DataFrame
    count: int
    has_keys: bool


def evaluate(inputs: DataFrame) -> DataFrame:
    """Evaluate a frame once, as :func:`columns.add_keys` returns it; ``_mid`` is its order."""
    marked = inputs.withColumn("_mid", F.monotonically_increasing_id())
    # By the first job that reads it, which saves one of its own.
    return marked.localCheckpoint(eager=False)


def collect(marked: DataFrame, most: int) -> pa.Table | None:
    """Return an evaluated frame's rows in order; ``None`` where they are too much.

    Few rows may be large, too: then the session says so, by its own limit of what a driver gets.

    Raises
    ------
    SchemaMismatchError
        When a value is out of the bounds of its column, as a cost of 0.
    """
    try:
        rows = marked.limit(most + 1).toArrow()
    except Exception as exc:
        if _LIMIT_OF_RESULTS not in str(exc):
            raise
        return None
    if rows.num_rows > most:
        return None
    for column in BOUNDED.keys() & {*rows.column_names}:
        BOUNDED[column].require(rows[column].to_pylist())
    instants.require_named(rows)
    if UNFIT in rows.column_names:
        _require_fit(rows[UNFIT].to_pylist())
        rows = rows.drop_columns(UNFIT)
    return _with_unset(rows.sort_by("_mid").drop_columns("_mid"))


def _with_unset(rows: pa.Table) -> pa.Table:
    """Return rows with the columns that nothing sets."""
    for name in UNSET.keys() - {*rows.column_names}:
        field = QUEUE_COLUMNS.arrow.field(name)
        same = pa.repeat(pa.scalar(UNSET[name], field.type), rows.num_rows)
        rows = rows.append_column(field, same)
    return rows


def _require_fit(reasons: Iterable[str | None]) -> None:
    """Raise where it is said of a row why it is refused."""
    why = next(filter(None, reasons), None)
    if why is not None:
        raise InvalidArgumentError(why)


def stage_rows(marked: DataFrame) -> Stage:
    """Give the rows of an evaluated frame their numbers."""
    unnamed = _unnamed_signs(marked.schema)
    bounded = BOUNDED.keys() & {*marked.columns}
    keys = F.count("_dedup_hash") if "_dedup_hash" in marked.columns else F.lit(0)
    partition = F.shiftright("_mid", _PARTITION_BIT).cast("int").alias("partition")
    found = (
        marked.groupBy(partition)
        .agg(
            F.count(F.lit(1)).alias("rows"),
            keys.alias("keys"),
            *(F.min(column).alias(f"_least{column}") for column in bounded),
            *(F.max(column).alias(f"_most{column}") for column in bounded),
            *(F.max(sign).alias(f"_unnamed_{name}") for name, sign in unnamed.items()),
            *(F.min(name).alias(name) for name in marked.columns if name == UNFIT),
        )
        .collect()
    )
    # Spark would look at the rows once more to put these few in order.
    facts = sorted(found, key=lambda row: row.partition)
    for column in bounded:
        # To Spark NaN is above all numbers.
        BOUNDED[column].require(
            row[f"{end}{column}"] for row in facts for end in ("_least", "_most")
        )
    if UNFIT in marked.columns:
        _require_fit(row[UNFIT] for row in facts)
    for name in unnamed:
        if any(row[f"_unnamed_{name}"] for row in facts):
            raise instants.outside(name)
    rows = marked.withColumn("_pos", _position({r.partition: r.rows for r in facts})).drop(
        "_mid", UNFIT
    )
    count = sum(row.rows for row in facts)
    if count > _MAX_ROWS:
        raise InvalidArgumentError(f"the frame has {count} rows; one step takes {_MAX_ROWS}")
    has_keys = any(row.keys for row in facts)
    return Stage(rows=rows, count=count, has_keys=has_keys)


def _position(rows_of: dict[int, int]) -> Column:
    """Return each row's place in the frame, from 1 and without gaps."""
    within: Column = F.col("_mid").bitwiseAND((1 << _PARTITION_BIT) - 1) + 1
    offsets = [0] * (max(rows_of) + 1 if rows_of else 1)
    before = 0
    for number, rows in sorted(rows_of.items()):
        offsets[number] = before
        before += rows
    if len(offsets) == 1:
        return within
    partition = F.shiftright("_mid", _PARTITION_BIT).cast("int")
    return within + F.element_at(F.array(*[F.lit(o) for o in offsets]), partition + 1)


def _unnamed_signs(schema: T.StructType) -> dict[str, Column]:
    """Return, by column, a test for times that Python cannot hold."""
    signs = {field.name: _is_unnamed(F.col(f"`{field.name}`"), field.dataType) for field in schema}
    return {name: sign for name, sign in signs.items() if sign is not None}


def _is_unnamed(value: Column, kind: T.DataType) -> Column | None:
    if isinstance(kind, T.TimestampType):
        return ~F.unix_micros(value).between(*instants.MICROSECONDS)
    if isinstance(kind, T.TimestampNTZType | T.DateType):
        return ~F.year(value).between(1, 9999)
    if isinstance(kind, T.StructType):
        return _any_of(_is_unnamed(value.getField(one.name), one.dataType) for one in kind)
    if isinstance(kind, T.ArrayType):
        return _has_unnamed(value, kind.elementType)
    if isinstance(kind, T.MapType):
        keys = _has_unnamed(F.map_keys(value), kind.keyType)
        return _any_of([keys, _has_unnamed(F.map_values(value), kind.valueType)])
    return None


def _has_unnamed(values: Column, kind: T.DataType) -> Column | None:
    if _is_unnamed(F.lit(None), kind) is None:
        return None
    return F.exists(values, lambda one: _certain(_is_unnamed(one, kind)))


def _any_of(signs: Iterable[Column | None]) -> Column | None:
    known = [_certain(sign) for sign in signs if sign is not None]
    return reduce(or_, known) if known else None


def _certain(sign: Column | None) -> Column:
    return F.lit(False) if sign is None else F.coalesce(sign, F.lit(False))


#: Rows up to which a frame is brought here, to be decided without Spark: in memory, or by SQL.
_FEW = 10_000
_MANY = 200_000


class SparkFrame:
    """An evaluated frame, for the decision of its step."""

    def __init__(self, store: Store, marked: DataFrame, *, is_decidable: bool) -> None:
        self.store = store
        self._marked = marked
        self._stage: Stage | None = None
        self.rows = self._collect() if is_decidable else None
        """The rows, if they are few and such as can be decided in this process."""

    def count(self) -> int:
        """Return how many rows there are."""
        return self.stage().count if self.rows is None else self.rows.num_rows

    def stage(self) -> Stage:
        """Return the rows, numbered by Spark."""
        if self._stage is None:
            self._stage = stage_rows(self._marked)
        return self._stage

    def _collect(self) -> pa.Table | None:
        """Return the rows if they are decided here; ``None`` where they are too many."""
        # Each look is a job of Spark's, and the first of them evaluates the frame.
        few = collect(self._marked, min(_FEW, _MANY))
        if few is not None or not Snapshot(self.store).are_files_read:
            return few
        # More are counted first: what is too much is not brought to be thrown away.
        return collect(self._marked, _MANY) if self.stage().count <= _MANY else None


def frame(store: Store, given: GivenRows) -> SparkFrame:
    """Check a frame, compute its keys, and evaluate it."""
    schema, settings = spark_frames.user_schema(store), given.settings
    key_rules.require_same_texts(store.name, settings, of_spark(schema))
    df, extra, order_by, trace = given.df, given.extra, given.order_by, given.trace
    # What were items before have what they entered with, in any format.
    is_again = bool(extra)
    if trace is not None and not isinstance(trace, str):
        df, extra = frames.trace(store, df, trace, order_by), (*extra, TRACE)
    rows = frames.of(store, df, extra)
    if not is_again:
        require_inputs(store.columns(), rows.columns)
    inputs = add_keys(rows, schema, settings.config, order_by, extra=extra, is_again=is_again)
    if isinstance(trace, str):
        inputs = inputs.withColumn(TRACE, F.lit(trace))
    return SparkFrame(store, evaluate(inputs), is_decidable=given.is_decidable)


def outcomes(store: Store, step: int, logged: pa.Table | None) -> DataFrame:
    """Return the outcome of each row of an enqueue, as it was logged."""
    rows = _step_rows(store, step, logged).where(F.col("_kind").isin(ITEM, REFUSED))
    users = [c for c in rows.columns if c not in QUEUE_COLUMNS.names]
    holder = F.col("_duplicate_of")
    replaced = F.col("_replaces") if "_replaces" in rows.columns else F.lit(None).cast("long")
    outcome = _became(holder, replaced).alias("outcome")
    holding = F.col("_holder") if "_holder" in rows.columns else F.lit(None).cast("string")
    other = F.coalesce(holder, replaced).alias("duplicate_of")
    return rows.select(*users, "_seq", outcome, other, holding.alias("holder"))


# rule again: outcome of a row
def _became(holder: Column, replaced: Column) -> Column:
    """Return what became of each row."""
    refused = F.when(holder.isNull(), "refused").when(holder > F.col("_seq"), "replaced")
    entered = F.when(replaced.isNull(), "inserted").when(holder.isNull(), "replaces")
    is_item = F.col("_kind") == ITEM
    return F.when(is_item, entered.otherwise("follows")).otherwise(refused.otherwise("duplicate"))


def _step_rows(store: Store, step: int, logged: pa.Table | None) -> DataFrame:
    if logged is None:
        return store.queue.read().where(F.col("_step") == step).orderBy("_seq")
    schema = spark_frames.user_schema(store).add("_seq", "long").add("_kind", "string")
    schema = schema.add("_duplicate_of", "long")
    for name, kind in (("_replaces", "long"), ("_holder", "string")):
        if name in logged.column_names:
            schema = schema.add(name, kind)
    return frames.frame_of(store.spark, logged.select(schema.names).sort_by("_seq"), schema)
