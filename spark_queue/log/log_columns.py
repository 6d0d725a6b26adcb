"""Columns of a log: what one is to the queue, to Arrow and to Spark."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from spark_queue.errors import SchemaMismatchError

#: What a column of ours is to Arrow, by its type in DDL.
_ARROW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}

#: Types that Spark writes otherwise in a schema.
_WRITTEN = {"int": "integer", "bigint": "long"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A column that rows may have beside the queue's own, for one of the log."""

    name: str
    default: float | None = None
    """The value where a row gives none."""
    above: float | None = None
    """The bound that a value is above; then it is finite, too."""
    least: int | None = None
    """The least whole number that a value is."""
    moves: bool = False
    """Whether the item keeps it when it is redriven, or forwarded to another queue."""

    def require(self, values: Iterable[float | None]) -> None:
        """Check values, or the least and the highest of them.

        Raises
        ------
        SchemaMismatchError
            When one is out of bounds; it names the column.
        """
        for value in values:
            if value is not None and not self._takes(value):
                raise SchemaMismatchError(self.name, f"has the value {value}; {self._bounds()}")

    @property
    def is_bounded(self) -> bool:
        """Whether some values of its type are refused."""
        return self.above is not None or self.least is not None

    def _takes(self, value: float) -> bool:
        if self.least is not None:
            return not isinstance(value, bool) and value >= self.least
        return self.above is None or self.above < value < math.inf

    def _bounds(self) -> str:
        if self.least is not None:
            return f"it is a whole number of at least {self.least}"
        return f"a {self.name} is above {self.above:g} and finite"


@dataclass(frozen=True, slots=True)
class LogColumn:
    """A column of the logs: the one place that says what it is."""

    name: str
    kind: str
    """Its type, as DDL names it."""
    meaning: str
    input: Input | None = None
    """The column of the caller's rows that sets it; the library sets the others."""
    since: int = 1
    """The format that brought it."""
    stays: bool = False
    """Whether nothing changes it, so that later rows of the item may leave it out."""


@dataclass(frozen=True)
class Columns:
    """Columns that belong to the queue, each with its type as DDL names it."""

    columns: Sequence[LogColumn]

    @cached_property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        """Their names and types, in order."""
        return tuple((column.name, column.kind) for column in self.columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(name for name, _ in self.kinds)

    @cached_property
    def arrow(self) -> pa.Schema:
        """What they are to Arrow."""
        return pa.schema([(name, _ARROW[kind]) for name, kind in self.kinds])

    @cached_property
    def json(self) -> str:
        """What they are to Spark, as it writes a schema."""
        return json_of([_field(name, kind) for name, kind in self.kinds])


def json_of(fields: Sequence[Mapping[str, Any]]) -> str:
    """Return columns as Spark writes a schema."""
    return json.dumps({"type": "struct", "fields": list(fields)})


def fields_of(schema: str) -> list[dict[str, Any]]:
    """Return the columns of a schema that Spark has written."""
    fields: list[dict[str, Any]] = json.loads(schema)["fields"]
    return fields


@lru_cache
def column_names(schema: str) -> tuple[str, ...]:
    """Return the names of the columns of such a schema."""
    return tuple(field["name"] for field in fields_of(schema))


def _field(name: str, kind: str) -> dict[str, Any]:
    written = _WRITTEN.get(kind, kind)
    return {"name": name, "type": written, "nullable": True, "metadata": {}}
