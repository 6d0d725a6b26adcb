"""Items in memory and in frames: whether they fit the columns, and how many bytes they count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import MAXYEAR, MINYEAR, date, datetime
from functools import reduce
from itertools import repeat
from numbers import Integral
from operator import add
from typing import Any

from pyspark.sql import Column, functions as F, types as T

from spark_queue.columns.kinds import WIDTHS
from spark_queue.columns.measures import Measure, length, misfit, of_bytes, of_item, of_text
from spark_queue.errors import SchemaMismatchError
from spark_queue.log.spark import spark_types


def measure(schema: T.StructType) -> Measure:
    """Return what measures an item, as :func:`spark_queue.columns.values.bytes_of` does a row.

    Parameters
    ----------
    schema : StructType
        The columns. With one of them an item is its value, else a mapping.

    Returns
    -------
    callable
        It raises :class:`SchemaMismatchError` for what the queue cannot hold, so that bad items
        fail alone, before they are in line.
    """
    return of_item(measures(schema))


def measures(schema: T.StructType) -> dict[str, Measure]:
    """Return what measures a value of each column, and refuses what does not fit it."""
    return {field.name: _measure_of(field) for field in schema}


def _measure_of(field: T.StructField) -> Measure:
    if isinstance(field.dataType, T.BinaryType):
        return of_bytes(field.name, field.dataType.simpleString())
    if isinstance(field.dataType, T.StringType):
        return of_text(field.name, field.dataType.simpleString())
    return lambda value: _other(value, field)


def _other(value: Any, field: T.StructField) -> int:
    try:
        stored = spark_types.column([value], field)[0].as_py()
    # Arrow and Spark have a kind of error for each thing that can be wrong with a value.
    except Exception as exc:
        raise _misfit(value, field) from exc
    if value is None:
        return 0
    if not _is_kept(value, stored, field.dataType):
        raise _misfit(value, field)
    return WIDTHS.get(field.dataType.simpleString()) or length(value)


def _is_kept(value: Any, stored: Any, kind: T.DataType) -> bool:
    """Whether a value comes out of the table as it went in, with all its parts.

    On the way there a number may be cut off, and what is no text becomes one.
    """
    if value is None or stored is None:
        return value is stored
    if isinstance(kind, T.ArrayType):
        return all(map(_is_kept, value, stored, repeat(kind.elementType)))
    if isinstance(kind, T.MapType):
        names = [name for name, _ in stored]
        values = [value for _, value in stored]
        return all(map(_is_kept, value, names, repeat(kind.keyType))) and all(
            map(_is_kept, value.values(), values, repeat(kind.valueType))
        )
    if isinstance(kind, T.StructType):
        return _is_row_kept(value, stored, [field.dataType for field in kind])
    return _is_plain_kept(value, stored, kind)


def _is_row_kept(value: Any, stored: Mapping[str, Any], kinds: Sequence[T.DataType]) -> bool:
    named = _parts_of(value)
    if not isinstance(named, Mapping):
        return all(map(_is_kept, named, stored.values(), kinds))
    if not named.keys() <= stored.keys():
        return False
    return all(map(_is_kept, map(named.get, stored), stored.values(), kinds))


def _parts_of(value: Any) -> Any:
    """Return the parts of a row, by their names where they have some, as Spark reads them."""
    if isinstance(value, T.Row):
        # By position, not by name; so they must be in order.
        return value.asDict() if hasattr(value, "__fields__") else tuple(value)
    return value if isinstance(value, Mapping | tuple | list) else vars(value)


def _is_plain_kept(value: Any, stored: Any, kind: T.DataType) -> bool:
    if isinstance(kind, T.StringType):
        return isinstance(value, str)
    if isinstance(kind, T.IntegralType):
        return isinstance(value, Integral)
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        # At either end of the calendar there are zones in which it is no time.
        return isinstance(value, datetime) and MINYEAR < stored.year < MAXYEAR
    if isinstance(kind, T.DateType):
        return type(value) is date and stored == value
    if isinstance(kind, T.DecimalType | T.DoubleType):
        return bool(stored == value or (stored != stored and value != value))  # noqa: PLR0124 - NaN
    return True


def _misfit(value: Any, field: T.StructField) -> SchemaMismatchError:
    return misfit(value, field.name, field.dataType.simpleString())


def bytes_of(schema: T.StructType) -> Column:
    """Return the size of a row: numbers and times by their type, texts and bytes by their length.

    Anything else counts as its JSON text. A null counts nothing.
    """
    return reduce(add, [_bytes_in(field) for field in schema], F.lit(0).cast("long"))


def _bytes_in(field: T.StructField) -> Column:
    value = spark_types.column_named(field.name)
    width = WIDTHS.get(field.dataType.simpleString())
    if width is not None:
        return F.when(value.isNull(), 0).otherwise(width)
    if isinstance(field.dataType, T.StringType | T.BinaryType):
        return F.coalesce(F.octet_length(value), F.lit(0))
    return F.coalesce(F.octet_length(F.to_json(F.struct(value))), F.lit(0))
