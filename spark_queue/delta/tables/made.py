"""Tables on this machine's disk that are made without Spark: the same first commit, at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from spark_queue.delta.tables import paths
from spark_queue.session import SMALL_STEPS

#: Types that both lanes write alike, and that need no feature of Delta's.
_PLAIN = frozenset(
    (
        *("string", "binary", "boolean", "date", "timestamp"),
        *("tinyint", "smallint", "int", "bigint", "float", "double"),
    )
)

#: A session's settings of what every table of it is made with.
_DEFAULTS = "spark.databricks.delta.properties.defaults."


def create(
    spark: SparkSession, directory: Path, schema: StructType, properties: Mapping[str, str]
) -> bool:
    """Make an empty table, partitioned by ``_gen``; False, and nothing done, where Spark has to.

    That is where a table is there, or was begun; where columns need more than the oldest version of
    Delta's protocol; and where the session has wishes of its own for new tables.
    """
    if not is_installed() or paths.has_log(directory) or not _is_plain(schema):
        return False
    settings = spark.conf.getAll
    if settings.get(SMALL_STEPS) == "spark" or any(name.startswith(_DEFAULTS) for name in settings):
        return False
    from deltalake import DeltaTable, Schema  # noqa: PLC0415 - an extra of its own

    try:
        DeltaTable.create(
            str(directory),
            Schema.from_json(_bare(schema).json()),
            partition_by=["_gen"],
            configuration=dict(properties),
        )
    except Exception:  # noqa: BLE001 - made by somebody else meanwhile, or impossible: Spark says
        return False
    return True


@cache
def is_installed() -> bool:
    """Tell whether ``deltalake`` is there."""
    return find_spec("deltalake") is not None


def _is_plain(schema: StructType) -> bool:
    kinds = (field.dataType.simpleString() for field in schema)
    return all(kind in _PLAIN or kind.startswith("decimal(") for kind in kinds)


def _bare(schema: StructType) -> StructType:
    """Return a schema with what a DDL says of it: names, types and comments."""
    return StructType([StructField(f.name, f.dataType, True, _comment(f)) for f in schema])


def _comment(field: StructField) -> dict[str, str]:
    return {name: text for name, text in (field.metadata or {}).items() if name == "comment"}
