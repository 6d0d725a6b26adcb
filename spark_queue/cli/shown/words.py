"""Numbers, times and items in short words, with their units."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from spark_queue.wording import duration, plural, size, visible

__all__ = [
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
    """Return a time of :func:`spark_queue.cli.shown.plain.plain` to the second, with its offset."""
    if text is None:
        return ""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        return at.isoformat(" ", "seconds")
    return at.astimezone(timezone.utc).replace(tzinfo=None).isoformat(" ", "seconds") + "Z"


def is_later(text: str | None, other: str) -> bool:
    """Tell whether one time of :func:`instant` is after another; ``None`` never is."""
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
    """Return how often an item failed and was lost, empty where it never was."""
    counts = []
    if row.get("_attempts"):
        counts.append(plural(row["_attempts"], "failed attempt"))
    if row.get("_losses"):
        counts.append(plural(row["_losses"], "lost lease"))
    return ", ".join(counts)
