"""New columns of a table on this machine's disk."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_queue.delta.tables.appending import link_commit
from spark_queue.errors import StepLostError

if TYPE_CHECKING:
    from deltalake import DeltaTable


def add_columns(directory: Path, table: DeltaTable, fields: Sequence[Mapping[str, Any]]) -> None:
    """Give a table more columns, which are null in all rows that are there.

    The commit is on the disk before it can be seen, and its name when this returns.

    Parameters
    ----------
    directory : Path
        Where it is.
    table : deltalake.DeltaTable
        The table as it is now. The caller has the right to write to it.
    fields : sequence of mapping
        The columns, as Spark writes a schema in JSON.

    Raises
    ------
    StepLostError
        When somebody has committed who does not ask for the right to.
    """
    known, columns = table.metadata(), json.loads(table.schema().to_json())
    columns["fields"] += fields
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
    info = {
        "timestamp": int(time.time() * 1000),
        "operation": "ADD COLUMNS",
        "operationParameters": {"columns": json.dumps([*fields], separators=(",", ":"))},
    }
    actions = [{"commitInfo": info}, {"metaData": defined}]
    version = table.version() + 1
    if not link_commit(directory / "_delta_log", version, actions, is_synced=True):
        names = ", ".join(field["name"] for field in fields)
        raise StepLostError(f"what adds {names}", 1)
