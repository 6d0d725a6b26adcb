"""Settings that SQL is asked with: columns of ``sq_asked``, by the rows of ``config.SETTINGS``."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from spark_queue.config import SETTINGS, QueueConfig, Setting

#: Their names and types.
SETTING_COLUMNS: tuple[tuple[str, pa.DataType], ...] = (
    *((row.name, pa.int64()) for row in SETTINGS if row.is_asked),
    ("blocking", pa.bool_()),
)


def setting_values(config: QueueConfig) -> dict[str, object]:
    """Return the values of these columns under a configuration."""
    counts = {row.name: _number(getattr(config, row.name)) for row in SETTINGS if row.is_asked}
    return {**counts, "blocking": config.on_failure == "block"}


def _number(value: int | timedelta | None) -> int | None:
    return value // timedelta(microseconds=1) if isinstance(value, timedelta) else value


def setting_columns_of(text: str) -> list[str]:
    """Return SQL of Spark for the same columns, over a configuration in JSON."""
    counts = [f"{_column_of(text, row)} AS {row.name}" for row in SETTINGS if row.is_asked]
    return [*counts, f"get_json_object({text}, '$.config.on_failure') = 'block' AS blocking"]


def _column_of(text: str, row: Setting) -> str:
    said = f"get_json_object({text}, '$.config.{row.name}')"
    if row.kind != "duration":
        return f"cast({said} AS bigint)"
    # An older queue has no such setting.
    return f"cast(round(coalesce(cast({said} AS double), 0) * 1000000) AS bigint)"
