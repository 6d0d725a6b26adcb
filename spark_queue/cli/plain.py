"""Results as plain data: what JSON can hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any


def plain(value: Any) -> Any:
    """Return a result as plain data.

    Dataclasses and mappings become objects, frames lists of objects, durations seconds, times
    ISO 8601, and whatever JSON has no word for its text.
    """
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
    return [plain(row.asDict(recursive=True)) for row in limited.collect()]


def _foreign(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, date):
        return value.isoformat()
    if hasattr(value, "collect"):
        return rows(value)
    return str(value)
