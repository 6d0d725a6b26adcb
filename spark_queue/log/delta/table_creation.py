"""Tables on this machine's disk that are made without Spark: the same first commit, at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_queue.errors import SparkNeededError, SparkQueueError
from spark_queue.log import addresses
from spark_queue.log.disk.delta_rs import telling
from spark_queue.log.log_columns import fields_of
from spark_queue.log.session_options import Session, has_own_tables, small_steps

#: Types that both lanes write alike, and that need no feature of Delta's.
_PLAIN = frozenset(
    (
        *("string", "binary", "boolean", "date", "timestamp"),
        *("byte", "short", "integer", "long", "float", "double"),
    )
)

#: Where a column says how its texts are compared.
_COLLATIONS = "__COLLATIONS"


def create(
    session: Session,
    directory: Path,
    schema: str,
    properties: Mapping[str, str],
    partition_by: Sequence[str] = (),
) -> bool:
    """Make an empty table; False, and nothing done, where Spark has to.

    That is where a table is there, or was begun; where columns need more than the oldest version of
    Delta's protocol; and where the session has wishes of its own for new tables.

    Parameters
    ----------
    session : SparkSession or PlainSession
        What the table is made with.
    directory : Path
        Where the table is to be.
    schema : str
        Its columns, as Spark writes a schema in JSON.
    properties : mapping
        Its properties.
    partition_by : sequence of str
        The columns by which it is partitioned.
    """
    if not is_installed() or addresses.has_log(directory) or not is_plain(schema):
        return False
    if small_steps(session) == "spark" or has_own_tables(session):
        return False
    try:
        with telling(directory):
            make_table(directory, schema, properties, partition_by)
    except SparkQueueError:
        # Somebody else may have made it meanwhile.
        if not addresses.has_log(directory):
            raise
        return False
    return True


def make_table(
    directory: Path, schema: str, properties: Mapping[str, str], partition_by: Sequence[str]
) -> None:
    """Make an empty table of plain columns in a directory that has none."""
    from deltalake import DeltaTable, Schema  # noqa: PLC0415 - takes a while

    fields = {"type": "struct", "fields": [*map(_bare, fields_of(schema))]}
    DeltaTable.create(
        str(directory),
        Schema.from_json(json.dumps(fields)),
        partition_by=[*partition_by],
        configuration=dict(properties),
        # The list of columns is ours.
        raise_if_key_not_exists=False,
    )


@cache
def is_installed() -> bool:
    """Tell whether ``deltalake`` is there."""
    return find_spec("deltalake") is not None


def is_plain(schema: str) -> bool:
    """Tell whether all columns of a schema, in JSON as Spark writes it, are of types kept here."""
    return are_plain(fields_of(schema))


def are_plain(fields: Iterable[Mapping[str, Any]]) -> bool:
    """Tell the same of some columns."""
    return all(map(_is_plain, fields))


def why_spark(fields: Iterable[Mapping[str, Any]]) -> str:
    """Say of some columns which of them have types that only tables of Spark keep."""
    named = ", ".join(repr(field["name"]) for field in fields if not _is_plain(field))
    return f"only Spark keeps columns of the type of {named}" if named else "only Spark makes them"


def _is_plain(field: Mapping[str, Any]) -> bool:
    kind = field["type"]
    if not isinstance(kind, str) or _COLLATIONS in (field.get("metadata") or {}):
        return False
    return kind in _PLAIN or kind.startswith("decimal(")


def _bare(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return a column with what a DDL says of it: its name, its type and its comment."""
    said = field.get("metadata") or {}
    comment = {name: text for name, text in said.items() if name == "comment"}
    return {"name": field["name"], "type": field["type"], "nullable": True, "metadata": comment}


def require_plain_types(name: str, columns: pa.Schema) -> None:
    """Raise where columns need more than the oldest version of Delta's protocol."""
    for column in columns:
        if _has_local_time(column.type):
            why = f"column {column.name!r} has times without a zone, a feature of Delta's"
            raise SparkNeededError(f"to make {name}", why)


def _has_local_time(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    inner: Sequence[pa.Field] = [kind.field(at) for at in range(kind.num_fields)]
    return any(_has_local_time(field.type) for field in inner)
