"""Types of Arrow that hold the values of Spark's, and columns from DDL, without Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from spark_queue import checks
from spark_queue.delta.input import kinds
from spark_queue.delta.input.grammar import Token, TokenReader, refuse
from spark_queue.delta.input.kinds import TYPES, Field, Kind, no_such_type
from spark_queue.errors import InvalidArgumentError, SparkNeededError
from spark_queue.wording import shorten

#: The instant that a timestamp is, in any zone.
INSTANT = pa.timestamp("us", "UTC")

_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": INSTANT,
    "timestamp_ntz": pa.timestamp("us"),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "void": pa.null(),
}


def schema_of(columns: Sequence[Field]) -> pa.Schema:
    """Return the columns as Arrow has them; any may be null, as in a log.

    Raises
    ------
    SparkNeededError
        When one is of a type that Arrow has not.
    """
    return pa.schema([(column.name, type_of(column)) for column in columns])


@lru_cache(maxsize=1_024)
def type_of(column: Field) -> pa.DataType:
    """Return the type of the values of a column; the error is that of :func:`schema_of`."""
    kind = column.kind
    if kind.digits:
        return pa.decimal128(*kind.digits)
    if kind.form == "struct":
        return pa.struct([_field(field) for field in kind.inner])
    if kind.form == "array":
        return pa.list_(_field(kind.inner[0]))
    if kind.form == "map":
        key, value = kind.inner
        return pa.map_(type_of(key), _field(value))
    if kind.form not in _TYPES:
        raise SparkNeededError(f"column {column.name!r}", f"it is {kind.simple}")
    return _TYPES[kind.form]


def _field(field: Field) -> pa.Field:
    return pa.field(field.name, type_of(field), field.nullable)


def ddl_of(kind: pa.DataType) -> str:
    """Return the name of a type as DDL has it."""
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return f"struct<{','.join(f'{one.name}:{ddl_of(one.type)}' for one in fields)}>"
    if pa.types.is_map(kind):
        return f"map<{ddl_of(kind.key_type)},{ddl_of(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{ddl_of(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    return next((name for name, other in _TYPES.items() if other == kind), str(kind))


def of_type(kind: Kind) -> pa.DataType:
    """Return the type of values of a kind that is nobody's column."""
    return type_of(Field("", kind))


def cast(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return values of a column as those of a type, as a session of Spark takes them from Arrow.

    Raises
    ------
    pyarrow.ArrowException
        When a value does not fit, or the column is not what it says, such as text that is no UTF-8.
    """
    if pa.types.is_boolean(values.type) and pa.types.is_integer(kind):
        raise pa.ArrowInvalid("true and false are no whole numbers")
    # Arrow trusts buffers that others have filled; what reads the column later does not.
    values.validate(full=True)
    # Spark counts microseconds, pandas nanoseconds: what is lost there is meant to be.
    return values.cast(kind, safe=not pa.types.is_timestamp(kind))


def from_pandas(given: Any) -> pa.Table:
    """Return the rows of a frame of pandas.

    Raises
    ------
    InvalidArgumentError
        When Arrow has no type for one of its columns.
    """
    try:
        return pa.Table.from_pandas(given, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as exc:
        raise InvalidArgumentError(f"the frame of pandas has no Arrow types: {exc}") from exc


_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<text>'(?:[^'\\]|'')*'|"(?:[^"\\]|"")*")
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>\d+(?!\w))
    | (?P<name>[A-Za-z_]\w*)
    | (?P<sign>[(),:<>])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.ASCII,
)

#: Other names of types.
_ALIASES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "character": "char",
    "timestamp_ltz": "timestamp",
}

#: Types of Spark's that Arrow has no like of.
_OF_SPARK = ("variant", "interval", "time", "void", "geometry", "geography")

_MOST_DIGITS = 38


def parse_fields(ddl: str, what: str = "schema") -> tuple[Field, ...]:
    """Read columns from DDL; errors name what they are for.

    Raises
    ------
    InvalidArgumentError
        When it is none; it names what is in the way.
    SparkNeededError
        When a column is of a type that only Spark reads.
    """
    checks.require_text(what, ddl)
    try:
        return _Reader(_tokens(ddl)).columns()
    except InvalidArgumentError as exc:
        raise InvalidArgumentError(f"{what} is {shorten(ddl)}, which is no DDL: {exc}") from exc


class _Reader(TokenReader):
    """Reads columns from left to right."""

    def columns(self) -> tuple[Field, ...]:
        columns = self._fields()
        self._require_end()
        return columns

    def _fields(self) -> tuple[Field, ...]:
        return tuple(self._chain(",", self._field))

    def _field(self) -> Field:
        name = self._name()
        self._accept(":")
        kind = self._kind()
        nullable = not self._accept("not")
        if not nullable:
            self._expect("null")
        return Field(name, kind, nullable, self._comment())

    def _name(self) -> str:
        token = self._take()
        if token.kind == "quoted":
            return token.name()
        if token.kind != "name":
            refuse(f"{token.text or 'the end'!r} is there instead of the name of a column")
        if self._next.kind == "end":
            refuse("name the columns, as in 'path string'")
        return token.text

    def _comment(self) -> str | None:
        if not self._accept("comment"):
            return None
        token = self._take()
        if token.kind != "text":
            refuse(f"{token.text or 'the end'!r} is there instead of a comment in quotes")
        mark = token.text[0]
        return token.text[1:-1].replace(mark * 2, mark)

    def _kind(self) -> Kind:
        token = self._take()
        name = _ALIASES.get(token.word, token.word)
        if name in _OF_SPARK or self._next.word == "collate":
            shown = name if name in _OF_SPARK else f"{name} collate"
            raise SparkNeededError(f"a column of type {shown}", "it is a type of Spark's alone")
        if name in kinds.NESTED:
            return self._read_nested(name)
        if name in ("char", "varchar"):
            return Kind(f"{name}({self._list(self._number)[0]})")
        if name == "decimal":
            return self._decimal()
        if name not in TYPES:
            refuse(no_such_type(name or token.text))
        return Kind(name)

    def _read_nested(self, name: str) -> Kind:
        self._expect("<")
        if name == "struct":
            kind = kinds.struct(self._fields())
        elif name == "array":
            kind = kinds.array(self._kind())
        else:
            key = self._kind()
            self._expect(",")
            kind = kinds.mapping(key, self._kind())
        self._expect(">")
        return kind

    def _decimal(self) -> Kind:
        digits = self._list(self._number) if self._next.word == "(" else [10]
        precision, scale = digits if len(digits) == len("ps") else (digits[0], 0)
        if not max(scale, 1) <= precision <= _MOST_DIGITS or len(digits) > len("ps"):
            refuse(f"decimal({', '.join(map(str, digits))}) has no such digits: from 1 to 38")
        return Kind(f"decimal({precision},{scale})")

    def _number(self) -> int:
        token = self._take()
        if token.kind != "number":
            refuse(f"{token.text or 'the end'!r} is there instead of a number")
        return int(token.text)


def _tokens(ddl: str) -> list[Token]:
    found: list[Token] = []
    at = 0
    while not found or found[-1].kind != "end":
        match = _TOKEN.match(ddl, at)
        if match is None:
            rest = ddl[at:].lstrip(" \t\r\n")
            refuse(f"{rest[:10]!r} is nothing that may stand in it; quote names by backticks")
        kind = str(match.lastgroup)
        found.append(Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return found
