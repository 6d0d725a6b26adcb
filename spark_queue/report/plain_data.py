"""Reports as plain data, which JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as plain data."""
    return {one.name: plain(getattr(value, one.name)) for one in fields(value)}


def plain(value: Any) -> Any:
    """Return a value as what JSON has a word for: times as ISO 8601, others as their text."""
    if is_dataclass(value):
        return fields_of(value)
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return value if is_plain else _text(value)


def _text(value: object) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(timezone.utc).isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)
