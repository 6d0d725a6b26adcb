"""New columns of a table on this machine's disk."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from spark_queue.delta.tables.appending import link_commit
from spark_queue.errors import StepLostError

if TYPE_CHECKING:
    from deltalake import DeltaTable


def add_text(directory: Path, table: DeltaTable, name: str) -> None:
    """Give a table one more column, of texts, which is null in all rows that are there.

    The commit is on the disk before it can be seen, and its name when this returns.

    Parameters
    ----------
    directory : Path
        Where it is.
    table : deltalake.DeltaTable
        The table as it is now. Whoever calls has the right to write to it.
    name : str
        The column.

    Raises
    ------
    StepLostError
        When somebody has committed who does not ask for the right to.
    """
    known, columns = table.metadata(), json.loads(table.schema().to_json())
    columns["fields"].append({"name": name, "type": "string", "nullable": True, "metadata": {}})
    defined = {
        "id": str(known.id),
        "name": known.name,
        "description": known.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(columns, separators=(",", ":")),
        "partitionColumns": known.partition_columns,
        "createdTime": known.created_time,
        "configuration": known.configuration,
    }
    fields = json.dumps(columns["fields"][-1:], separators=(",", ":"))
    info = {
        "timestamp": int(time.time() * 1000),
        "operation": "ADD COLUMN",
        "operationParameters": {"fields": fields},
    }
    actions = [{"commitInfo": info}, {"metaData": defined}]
    version = table.version() + 1
    if not link_commit(directory / "_delta_log", version, actions, is_synced=True):
        raise StepLostError(f"a new column {name}", 1)
