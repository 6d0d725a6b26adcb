"""Statistics of a file, as a commit has them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

#: The longest text that statistics repeat.
_LONGEST = 32


def statistics_of(rows: pa.Table, ranged: Sequence[str]) -> dict[str, Any]:
    """Return the statistics of a file: of each column both ends, where known, and the nulls."""
    stats: dict[str, Any] = {"numRecords": rows.num_rows}
    known = [name for name in ranged if name in rows.column_names]
    if not known:
        return stats
    ends = {name: _ends(rows[name]) for name in known}
    least = {name: pair[0] for name, pair in ends.items() if pair is not None}
    highest = {name: pair[1] for name, pair in ends.items() if pair is not None}
    nulls = {name: rows[name].null_count for name in known}
    return {**stats, "minValues": least, "maxValues": highest, "nullCount": nulls}


def _ends(values: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """Return the least and the highest value as statistics have them, where they can."""
    if len(values) == 1:
        one = _plain(values[0].as_py())
        return None if one is None else (one, one)
    found = pc.min_max(values)
    least, highest = _plain(found["min"].as_py()), _plain(found["max"].as_py())
    return None if least is None or highest is None else (least, highest)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        # Readers know that what is finer than a millisecond is cut off.
        cut = value.astimezone(timezone.utc).isoformat(timespec="milliseconds")
        return cut.replace("+00:00", "Z")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else None
    return value if isinstance(value, int) else None


def written_statistics(count: int, *columns: Mapping[str, Any] | None) -> str:
    """Return statistics of a file as a commit has them: the least, the highest, and the nulls."""
    least, highest, nulls = (column or {} for column in columns)
    ends = {"minValues": least, "maxValues": highest}
    told = {
        name: {key: _plain(value) for key, value in values.items() if _plain(value) is not None}
        for name, values in ends.items()
    }
    counted = {key: value for key, value in nulls.items() if value is not None}
    stats = {"numRecords": count, **told, "nullCount": counted}
    return json.dumps(stats, separators=(",", ":"))
