"""Settings that SQL is asked with: columns of ``sq_asked``, by the rows of ``config.SETTINGS``."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from spark_queue.config import SETTINGS, QueueConfig

_MICROSECOND = timedelta(microseconds=1)

#: Their names and types: counts, and durations in microseconds.
SETTING_COLUMNS: tuple[tuple[str, pa.DataType], ...] = (
    *((row.name, pa.int64()) for row in SETTINGS if row.is_asked),
    ("blocking", pa.bool_()),
)


def setting_values(config: QueueConfig) -> dict[str, object]:
    """Return the values of these columns under a configuration."""
    values = {row.name: getattr(config, row.name) for row in SETTINGS if row.is_asked}
    found: dict[str, object] = {
        name: value // _MICROSECOND if isinstance(value, timedelta) else value
        for name, value in values.items()
    }
    return {**found, "blocking": config.on_failure == "block"}


def setting_columns_of(text: str) -> list[str]:
    """Return SQL of Spark for the same columns, over a configuration in JSON."""
    return [
        *(_column(row.name, row.kind, text) for row in SETTINGS if row.is_asked),
        _blocking(text),
    ]


def _column(name: str, kind: str, text: str) -> str:
    value = f"get_json_object({text}, '$.config.{name}')"
    if kind == "duration":
        value = f"cast({value} AS double) * 1e6"
    return f"cast({value} AS bigint) AS {name}"


def _blocking(text: str) -> str:
    return f"get_json_object({text}, '$.config.on_failure') = 'block' AS blocking"
