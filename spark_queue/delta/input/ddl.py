"""Columns as they are written down: ``path string, size bigint``."""

from __future__ import annotations

import re

from pyspark.sql.types import StructType

from spark_queue import checks
from spark_queue.delta.input.kinds import no_such_type
from spark_queue.errors import InvalidArgumentError
from spark_queue.wording import shorten


def parse_columns(schema: StructType | str, what: str = "schema") -> StructType:
    """Read columns from a schema or from DDL; errors name what they are for.

    Raises
    ------
    InvalidArgumentError
        When it is neither.
    """
    if isinstance(schema, StructType):
        return schema
    checks.require_text(what, schema)
    try:
        parsed = StructType.fromDDL(schema)
    except Exception as exc:
        raise InvalidArgumentError(
            f"{what} is {shorten(schema)}, which is no DDL: {why_no_ddl(str(exc))}"
        ) from exc
    if not isinstance(parsed, StructType):
        raise InvalidArgumentError(
            f"{what} is {shorten(schema)}: name the columns, as in 'path string'"
        )
    return parsed


def why_no_ddl(said: str) -> str:
    """Return what is wrong in a line, with the type that was probably meant."""
    unknown = re.search(r'Unsupported data type "(\w+)"', said)
    if unknown is None:
        return said.strip().split("\n", 1)[0]
    return no_such_type(unknown.group(1).lower())
