"""Columns of an output, and the rows that they refuse."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from pyspark.sql import Column, DataFrame, SparkSession, Window, functions as F, types as T

from spark_queue.errors import SchemaMismatchError
from spark_queue.log.addresses import TableAddress

#: Columns that name the item and the claim of a row.
_MARKS = ("_seq", "_claim_id")

_CHECK = "delta.constraints."
_TEXT = "__CHAR_VARCHAR_TYPE_STRING"
_LENGTH = re.compile(r"(?:var)?char\((\d+)\)")

#: What fills a column that a row lacks, by the metadata of Delta.
_FILLED = ("CURRENT_DEFAULT", "delta.generationExpression", "delta.identity.start")

#: Features of tables that fill columns, of which a session shows no metadata.
_FILLING = frozenset({"generatedColumns", "identityColumns"})

_AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"

#: Decimal digits of whole numbers.
_DIGITS: Mapping[type[T.DataType], int] = {
    T.ByteType: 3,
    T.ShortType: 5,
    T.IntegerType: 10,
    T.LongType: 19,
}

#: Types of numbers, each with those that hold all of its values.
_WIDER: Mapping[type[T.DataType], tuple[type[T.DataType], ...]] = {
    T.ByteType: (T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType),
    T.ShortType: (T.IntegerType, T.LongType, T.FloatType, T.DoubleType),
    T.IntegerType: (T.LongType, T.DoubleType),
    T.FloatType: (T.DoubleType,),
}

#: What Delta says of rows that it refuses.
_REFUSALS = (
    "DELTA_VIOLATE_CONSTRAINT",
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
    "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
    "EXCEED_LIMIT_LENGTH",
)


def schema_of(text: str) -> T.StructType:
    """Return columns from the JSON of a commit."""
    return T.StructType.fromJson(json.loads(text))


def require(
    spark: SparkSession,
    address: TableAddress,
    there: T.StructType,
    rows: T.StructType,
    table: str,
    source: str,
) -> None:
    """Check that rows can be appended to a table.

    Parameters
    ----------
    spark : SparkSession
        What writes: it may add columns to tables by itself.
    address : TableAddress
        Where the table is: it may fill columns by itself, although their metadata do not say so.
    there : StructType
        The columns of the table.
    rows : StructType
        Those of the rows.
    table, source : str
        What the table is called, and what says the columns of the rows, for the error.

    Raises
    ------
    SchemaMismatchError
        With the column and both types.
    """
    named = {field.name.lower(): field for field in there}
    for field in rows:
        found = named.pop(field.name.lower(), None)
        if found is None and (field.name in _MARKS or not _may_grow(spark)):
            raise SchemaMismatchError(
                field.name, f"is missing in {table}: add it there, or name another table"
            )
        if found is not None and not _fits(field.dataType, found.dataType):
            ours, theirs = (one.dataType.simpleString() for one in (field, found))
            where = f"in {table}, and {ours} in {source}: change one, or name another table"
            raise SchemaMismatchError(field.name, f"is {theirs} {where}")
    for field in named.values():
        is_filled = field.nullable or any(name in field.metadata for name in _FILLED)
        if not is_filled and not _may_fill(spark, address):
            raise SchemaMismatchError(
                field.name, f"is NOT NULL in {table}, and missing in {source}"
            )


def _may_grow(spark: SparkSession) -> bool:
    return str(spark.conf.get(_AUTO_MERGE, "false")).lower() == "true"


def _may_fill(spark: SparkSession, address: TableAddress) -> bool:
    row = spark.sql(f"DESCRIBE DETAIL {address.sql()}").select("tableFeatures").head()
    return row is not None and not _FILLING.isdisjoint(row[0] or ())


def widen(rows: DataFrame, there: T.StructType) -> DataFrame:
    """Return rows with their numbers of the types that the table has."""
    kinds = {field.name.lower(): field.dataType for field in there}
    wider = {
        field.name: F.col(f"`{field.name}`").cast(kinds[field.name.lower()])
        for field in rows.schema
        if field.name.lower() in kinds and _widens(field.dataType, kinds[field.name.lower()])
    }
    return rows.withColumns(wider) if wider else rows


def with_required(returns: T.StructType, there: T.StructType) -> T.StructType:
    """Return the columns of results, those NOT NULL that the table has so."""
    required = {field.name.lower() for field in there if not field.nullable}
    return T.StructType(
        [
            T.StructField(field.name, field.dataType, nullable=False, metadata=field.metadata)
            if field.name.lower() in required
            else field
            for field in returns
        ]
    )


def is_refusal(error: Exception) -> bool:
    """Tell whether an error is Delta's word that rows do not fit a table's constraints."""
    return any(code in str(error) for code in _REFUSALS)


def refusal_of(error: Exception) -> str:
    """Return the line in which Delta says what it refuses."""
    lines = str(error).splitlines()
    return next(line.strip() for line in lines if any(code in line for code in _REFUSALS))


def find_refused(
    rows: DataFrame, there: T.StructType, properties: Mapping[str, str], output: str
) -> DataFrame:
    """Return ``_seq`` of the rows that an output refuses, and ``_why``.

    Parameters
    ----------
    rows : DataFrame
        Rows as they were to be written.
    there : StructType
        The columns of the output.
    properties : mapping
        Its properties, which have its constraints.
    output : str
        Its name.
    """
    ours = {name.lower(): name for name in rows.columns}
    whole = rows.select(
        *(
            (F.col(f"`{ours[name]}`") if name in ours else _filling(field)).alias(field.name)
            for field in there
            for name in [field.name.lower()]
        )
    )
    reasons = [
        F.when(~F.coalesce(fits, F.lit(False)), F.lit(f"the output {output!r} refuses it: {why}"))
        for why, fits in _constraints(there, properties)
    ]
    why = F.coalesce(*reasons, F.lit(None).cast("string"))
    return whole.select("_seq", why.alias("_why")).where("_why IS NOT NULL")


def fail_refused(stage: DataFrame, refused: DataFrame, groups: DataFrame | None) -> DataFrame:
    """Return outcomes of which those with a refused result have failed.

    Parameters
    ----------
    stage : DataFrame
        ``_seq``, ``outcome``, ``error``, ``after``, ``pause``, ``result``, and others that stay.
    refused : DataFrame
        What :func:`find_refused` returns.
    groups : DataFrame, optional
        ``_seq`` and ``_group_key``, where a group stops at a failure: then what is behind it in
        its group goes back, uncharged.
    """
    found = stage.join(refused, "_seq", "left").withColumn("_is_behind", F.lit(False))
    if groups is not None:
        failed = F.when(F.col("_why").isNotNull(), F.col("_seq"))
        first = F.min(failed).over(Window.partitionBy("_group_key"))
        is_behind = F.col("_group_key").isNotNull() & (F.col("_seq") > first)
        found = found.join(groups, "_seq", "left")
        found = found.withColumn("_is_behind", F.coalesce(is_behind, F.lit(False)))
    is_behind, why = F.col("_is_behind"), F.col("_why")
    outcome = F.when(is_behind, "release").when(why.isNotNull(), "nack")
    said = {
        "outcome": outcome.otherwise(F.col("outcome")),
        "error": F.when(~is_behind, F.coalesce(why, "error")),
        **{name: F.when(~is_behind, F.col(name)) for name in ("after", "pause")},
        "result": F.when(~is_behind & why.isNull(), F.col("result")),
    }
    return found.select(*(said.get(name, F.col(name)).alias(name) for name in stage.columns))


def _constraints(
    there: T.StructType, properties: Mapping[str, str]
) -> Iterator[tuple[str, Column]]:
    """Return what a table asks of a row: as a text, and as a condition."""
    for path in _required_paths(there):
        quoted = ".".join(f"`{name}`" for name in path)
        yield f"column {'.'.join(path)!r} is NOT NULL", F.col(quoted).isNotNull()
    for field in there:
        found = _LENGTH.fullmatch(field.metadata.get(_TEXT, ""))
        if found is not None:
            text = F.col(f"`{field.name}`")
            fits = text.isNull() | (F.length(text) <= int(found[1]))
            yield f"column {field.name!r} is {found[0]}", fits
    for name, check in properties.items():
        if name.startswith(_CHECK):
            yield f"CHECK constraint {name.removeprefix(_CHECK)!r} ({check})", F.expr(check)


def _required_paths(columns: T.StructType) -> Iterator[tuple[str, ...]]:
    """Return the paths of columns that are NOT NULL, those in structs, too."""
    for field in columns:
        if not field.nullable:
            yield (field.name,)
        if isinstance(field.dataType, T.StructType):
            yield from ((field.name, *path) for path in _required_paths(field.dataType))


def _filling(field: T.StructField) -> Column:
    """Return what a table puts into a column that a row lacks."""
    said = (field.metadata.get(name) for name in _FILLED)
    text = next((text for text in said if isinstance(text, str)), None)
    return (F.lit(None) if text is None else F.expr(text)).cast(field.dataType)


def _fits(ours: T.DataType, theirs: T.DataType) -> bool:
    """Tell whether Delta takes values of a type into a column of another."""
    return _is_same(ours, theirs) or _widens(ours, theirs)


def _is_same(ours: T.DataType, theirs: T.DataType) -> bool:
    """Tell whether two types are one, but for what may be null and what a struct lacks."""
    if isinstance(ours, T.ArrayType) and isinstance(theirs, T.ArrayType):
        return _is_same(ours.elementType, theirs.elementType)
    if isinstance(ours, T.MapType) and isinstance(theirs, T.MapType):
        pairs = ((ours.keyType, theirs.keyType), (ours.valueType, theirs.valueType))
        return all(_is_same(*pair) for pair in pairs)
    if isinstance(ours, T.StructType) and isinstance(theirs, T.StructType):
        kinds = {field.name.lower(): field.dataType for field in theirs}
        return all(
            field.name.lower() in kinds and _is_same(field.dataType, kinds[field.name.lower()])
            for field in ours
        )
    # Texts of any collation are texts.
    are_texts = isinstance(ours, T.StringType) and isinstance(theirs, T.StringType)
    return are_texts or ours.simpleString() == theirs.simpleString()


def _widens(ours: T.DataType, theirs: T.DataType) -> bool:
    """Tell whether a type of numbers holds all values of another."""
    if isinstance(theirs, T.DecimalType):
        if isinstance(ours, T.DecimalType):
            whole = theirs.precision - theirs.scale >= ours.precision - ours.scale
            return ours != theirs and whole and theirs.scale >= ours.scale
        return theirs.precision - theirs.scale >= _DIGITS.get(type(ours), math.inf)
    return type(theirs) in _WIDER.get(type(ours), ())
