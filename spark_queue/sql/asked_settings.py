"""Settings that SQL is asked with: columns of ``sq_asked``, by the rows of ``config.SETTINGS``."""

from __future__ import annotations

import pyarrow as pa

from spark_queue.config import SETTINGS, QueueConfig

#: Their names and types.
SETTING_COLUMNS: tuple[tuple[str, pa.DataType], ...] = (
    *((row.name, pa.int64()) for row in SETTINGS if row.is_asked),
    ("blocking", pa.bool_()),
)


def setting_values(config: QueueConfig) -> dict[str, object]:
    """Return the values of these columns under a configuration."""
    counts = {row.name: getattr(config, row.name) for row in SETTINGS if row.is_asked}
    return {**counts, "blocking": config.on_failure == "block"}


def setting_columns_of(text: str) -> list[str]:
    """Return SQL of Spark for the same columns, over a configuration in JSON."""
    counts = [
        f"cast(get_json_object({text}, '$.config.{row.name}') AS bigint) AS {row.name}"
        for row in SETTINGS
        if row.is_asked
    ]
    return [*counts, f"get_json_object({text}, '$.config.on_failure') = 'block' AS blocking"]
