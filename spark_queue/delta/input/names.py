"""Allowed names and types of a user's columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from spark_queue.delta.input.kinds import Field
from spark_queue.delta.tables.schema import INPUTS
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError

_LIMITED = re.compile(r"(var)?char\(\d+\)")


def require_columns(columns: Sequence[Field]) -> None:
    """Check the columns with which a queue is created.

    Raises
    ------
    SchemaMismatchError
        When a column starts with ``_``, has a dot or a backtick, or is named like an optional
        input, or there is none; or when texts in it have a limited length, which only a write would
        find out.
    """
    if not columns:
        raise InvalidArgumentError("the schema has no columns; a queue needs at least one")
    names = [column.name for column in columns]
    require_different(names)
    for column in columns:
        if _LIMITED.fullmatch(column.kind.form):
            kind = column.kind.simple
            raise SchemaMismatchError(column.name, f"is {kind}; a queue holds texts as string")
    require_plain(names)
    for name in names:
        if name.startswith("_"):
            raise SchemaMismatchError(name, "names that start with _ belong to the queue; rename")
        if name in INPUTS:
            raise SchemaMismatchError(
                name, "is read from the frames that are enqueued; leave it out of the schema"
            )


def require_different(names: Iterable[str]) -> None:
    """Refuse names of which two are alike to Spark, which does not tell them apart by case."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise SchemaMismatchError(name, "is there twice; rename or drop one")
        seen.add(name.lower())


def require_plain(names: Iterable[str]) -> None:
    """Refuse names that Spark reads as a path, wherever they are not quoted."""
    for name in names:
        if "." in name or "`" in name:
            raise SchemaMismatchError(
                name, "names with a dot or a backtick are no plain columns; rename"
            )
