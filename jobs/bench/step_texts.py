"""Rows of a step as texts, by which the decisions of two planners are compared."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def texts_of(rows: DataFrame | pa.Table) -> Counter[str]:
    """Return the rows of a step as texts that can be compared.

    A column that one planner leaves out is null with the other; what a commit adds is left out.
    """
    table = rows if isinstance(rows, pa.Table) else rows.toArrow()
    return Counter(_text(row) for row in table.to_pylist())


#: What a row gets by its commit.
_OF_THE_COMMIT = frozenset({"token", "at", "_step"})


def _text(row: dict[str, Any]) -> str:
    told = {name: row[name] for name in sorted(row) if row[name] is not None}
    return ", ".join(
        f"{name}={plain(value)!r}" for name, value in told.items() if name not in _OF_THE_COMMIT
    )


def plain(value: Any) -> Any:
    """Return a value, an instant as that of UTC."""
    return value.astimezone(timezone.utc).isoformat() if isinstance(value, datetime) else value
