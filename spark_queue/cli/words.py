"""Values of a result as plain data, and as words for a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, timezone
from typing import Any

from spark_queue import wording
from spark_queue.wording import agree, duration, plural, size, visible

#: An object, as :func:`plain` makes it.
Plain = Mapping[str, Any]


def plain(value: Any) -> Any:
    """Return a result as plain data; frames and tables become lists of objects."""
    return wording.plain(value, _foreign)


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
    if name == "timestamp" and value is not None:
        return value.astimezone(timezone.utc).isoformat()
    if name == "struct":
        return {f.name: _value(v, f.dataType) for f, v in zip(kind.fields, value, strict=True)}
    if name == "array":
        return [_value(one, kind.elementType) for one in value]
    if name == "map":
        return {str(plain(key)): _value(one, kind.valueType) for key, one in value.items()}
    return plain(value)


def _foreign(value: Any) -> Any:
    # An instant has its offset, UTC; a time of the wall has none.
    if isinstance(value, date):
        return value.isoformat()
    if hasattr(value, "collect"):
        return rows(value)
    return plain(value.to_pylist()) if hasattr(value, "to_pylist") else str(value)


__all__ = [
    "agree",
    "clip",
    "duration",
    "error",
    "instant",
    "is_later",
    "item",
    "number",
    "plural",
    "size",
    "tries",
]

#: How much of one value, and of one error, a line shows; ``--json`` has all of it.
VALUE_CHARS = 60
ERROR_CHARS = 400


def number(count: int) -> str:
    """Return a count in at most seven characters."""
    for power, name in ((1_000_000_000, "G"), (1_000_000, "M")):
        if count >= power:
            return f"{count / power:.1f} {name}"
    return f"{count:,}"


def instant(text: str | None) -> str:
    """Return a time of :func:`spark_queue.cli.words.plain` to the second, with its offset."""
    if text is None:
        return ""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        return at.isoformat(" ", "seconds")
    return at.astimezone(timezone.utc).replace(tzinfo=None).isoformat(" ", "seconds") + "Z"


def is_later(text: str | None, other: str) -> bool:
    """Whether one time of :func:`instant` is after another; ``None`` never is."""
    return text is not None and datetime.fromisoformat(text) > datetime.fromisoformat(other)


def item(row: Mapping[str, Any]) -> str:
    """Return the user's own columns of an item as one text."""
    own = {name: value for name, value in row.items() if not name.startswith("_")}
    return " ".join(f"{name}={clip(value)}" for name, value in own.items())


def clip(value: Any, most: int = VALUE_CHARS) -> str:
    """Return a value as text, not longer than so many characters."""
    text = visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= most else text[: most - 1] + "…"


def error(row: Mapping[str, Any]) -> str:
    """Return the first line of the last error of an item."""
    lines = (row.get("_error") or "").strip().splitlines()
    return clip(lines[0], ERROR_CHARS) if lines else ""


def tries(row: Mapping[str, Any]) -> str:
    """Return how often an item failed, was lost and was deferred, empty where it never was."""
    counts = []
    if row.get("_attempts"):
        counts.append(plural(row["_attempts"], "failed attempt"))
    if row.get("_losses"):
        counts.append(plural(row["_losses"], "lost lease"))
    if row.get("_deferrals"):
        counts.append(plural(row["_deferrals"], "deferral"))
    return ", ".join(counts)
