"""Parts and sizes of items in memory.

A measure returns how many bytes a value counts, and refuses what its column cannot hold, so that a
bad item fails alone, before it is in line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from spark_queue.errors import SchemaMismatchError
from spark_queue.wording import shorten

#: Returns how many bytes a value counts; raises where it does not fit.
Measure = Callable[[Any], int]


def of_item(columns: Mapping[str, Measure]) -> Measure:
    """Return what measures an item: with one column its value, else a mapping of them."""
    if len(columns) == 1:
        return next(iter(columns.values()))
    return lambda item: require_fit(item, columns)


def require_fit(
    item: Mapping[str, Any], columns: Mapping[str, Measure], optional: Collection[str] = ()
) -> int:
    """Return the size of an item that has all columns, save optional ones, and no others.

    Raises
    ------
    SchemaMismatchError
        It names the first column that is missing, is unknown, or has another type.
    """
    if not isinstance(item, Mapping):
        raise SchemaMismatchError(
            next(iter(columns)),
            f"is missing in {shorten(item)}: an item is a mapping of its columns",
        )
    for name in columns:
        if name not in item and name not in optional:
            raise SchemaMismatchError(name, "is missing in the item")
    for name in item:
        if name not in columns:
            raise SchemaMismatchError(name, "is not a column of the queue")
    return sum(columns[name](value) for name, value in item.items())


def of_bytes(name: str, kind: str) -> Measure:
    """Return the measure of a column of bytes."""
    # A part of every put: a union of types would take longer to ask than all the rest.
    kinds = (bytes, bytearray)

    def size(value: Any) -> int:
        return len(value) if isinstance(value, kinds) else _nothing(value, name, kind)

    return size


def of_text(name: str, kind: str) -> Measure:
    """Return the measure of a column of texts."""

    def size(value: Any) -> int:
        if not isinstance(value, str):
            return _nothing(value, name, kind)
        if value.isascii():
            return len(value)
        try:
            return len(value.encode())
        except UnicodeEncodeError as exc:
            raise misfit(value, name, kind) from exc

    return size


def length(value: Any) -> int:
    """Return how many bytes a value counts that is made of others: those of its JSON."""
    try:
        return len(json.dumps(value, default=str).encode())
    except TypeError:
        # A map by dates, or by bytes: JSON has no such names.
        return len(str(value).encode())


def misfit(value: Any, name: str, kind: str) -> SchemaMismatchError:
    """Return the error of a value that its column cannot hold."""
    # NaT of pandas is a datetime, too, and no time.
    is_time = isinstance(value, datetime) and value == value  # noqa: PLR0124
    if is_time and kind == "timestamp" and value.utcoffset() is None:
        why = "a time without an offset: give it one, as in datetime.now(timezone.utc)"
        return SchemaMismatchError(name, f"is {shorten(value)}, {why}")
    return SchemaMismatchError(name, f"is {shorten(value)} in the item, and {kind} in the queue")


def _nothing(value: Any, name: str, kind: str) -> int:
    if value is None:
        return 0
    raise misfit(value, name, kind)
