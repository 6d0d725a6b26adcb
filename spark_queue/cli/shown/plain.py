"""Results as plain data: what JSON can hold."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any

#: An object, as :func:`plain` makes it.
Plain = Mapping[str, Any]


def plain(value: Any) -> Any:
    """Return a result as plain data.

    Dataclasses and mappings become objects, frames and tables lists of objects, durations seconds,
    times ISO 8601 in UTC with their offset, and values unknown to JSON their text.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return _foreign(value)


def rows(frame: Any, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of a frame, or the first of them, as plain data."""
    limited = frame if limit is None else frame.limit(limit)
    return [_value(row, frame.schema) for row in limited.collect()]


def _value(value: Any, kind: Any) -> Any:
    """Return a collected value as plain data.

    Both types of timestamps arrive as naive times: an instant as one of this process's zone, a time
    of the wall as what it is, which has no offset to print.
    """
    name = kind.typeName()
    if value is None or name == "timestamp_ntz":
        return value if value is None else value.isoformat()
    if name == "struct":
        return {f.name: _value(v, f.dataType) for f, v in zip(kind.fields, value, strict=True)}
    if name == "array":
        return [_value(one, kind.elementType) for one in value]
    if name == "map":
        return {str(plain(key)): _value(one, kind.valueType) for key, one in value.items()}
    return plain(value)


def _foreign(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        # A naive time is one of this process's zone: so Spark hands them out.
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if hasattr(value, "collect"):
        return rows(value)
    if hasattr(value, "to_pylist"):
        return plain(value.to_pylist())
    return str(value)
