"""Types of Arrow that hold the values of Spark's, and columns from DDL, without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue import checks
from spark_queue.columns import kinds
from spark_queue.columns.grammar import TokenReader, cut, refuse
from spark_queue.columns.kinds import TYPES, Field, Kind, no_such_type
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError, SparkNeededError
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
    """Return a column's type in Arrow; raises as :func:`schema_of` does."""
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


def kind_of(given: pa.DataType) -> Kind:
    """Return Spark's type for a type of Arrow, else a kind of Arrow's name."""
    made = next((make for is_one, make in _KINDS if is_one(given)), None)
    return Kind(_NAMES.get(given, str(given))) if made is None else made(given)


def _struct_of(given: pa.DataType) -> Kind:
    fields = (given.field(at) for at in range(given.num_fields))
    return kinds.struct(Field(one.name, kind_of(one.type), one.nullable) for one in fields)


def _array_of(given: pa.DataType) -> Kind:
    return kinds.array(kind_of(given.value_type))


def _always(name: str) -> Callable[[pa.DataType], Kind]:
    return lambda _: Kind(name)


#: What is made of others, or has parameters; and the ways in which Arrow keeps the same values.
_KINDS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], Kind]], ...] = (
    (pa.types.is_dictionary, lambda given: kind_of(given.value_type)),
    (pa.types.is_struct, _struct_of),
    (
        pa.types.is_map,
        lambda given: kinds.mapping(kind_of(given.key_type), kind_of(given.item_type)),
    ),
    (pa.types.is_list, _array_of),
    (pa.types.is_large_list, _array_of),
    (pa.types.is_fixed_size_list, _array_of),
    (pa.types.is_list_view, _array_of),
    (pa.types.is_large_list_view, _array_of),
    (pa.types.is_run_end_encoded, lambda given: kind_of(given.value_type)),
    (pa.types.is_decimal, lambda given: Kind(f"decimal({given.precision},{given.scale})")),
    (pa.types.is_timestamp, lambda given: Kind("timestamp" if given.tz else "timestamp_ntz")),
    (pa.types.is_date, _always("date")),
    (pa.types.is_large_string, _always("string")),
    (pa.types.is_string_view, _always("string")),
    (pa.types.is_large_binary, _always("binary")),
    (pa.types.is_fixed_size_binary, _always("binary")),
    (pa.types.is_binary_view, _always("binary")),
)
_NAMES = {kind: name for name, kind in _TYPES.items()}


def ddl_of(kind: pa.DataType) -> str:
    """Return the name of a type as DDL has it."""
    return kind_of(kind).simple


def of_type(kind: Kind) -> pa.DataType:
    """Return the type in Arrow of a kind of value."""
    return type_of(Field("", kind))


def cast(values: pa.ChunkedArray, column: Field) -> pa.ChunkedArray:
    """Return values as those of a column, in the layout that this has here.

    Raises
    ------
    SchemaMismatchError
        When they are of a type that does not go into it, have a part that it does not keep, such as
        nanoseconds, or are not what they say, such as text that is no UTF-8; it names the column.
    """
    given = kind_of(values.type)
    if column.kind.form == "timestamp" and given.form in ("date", "timestamp_ntz"):
        raise SchemaMismatchError(
            column.name, "holds times without an offset; give them a time zone"
        )
    kinds.require_fit(given, column)
    try:
        # Arrow trusts buffers that others have filled; what reads the column later does not.
        values.validate(full=True)
        return _as_laid_out(values).cast(type_of(column))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise SchemaMismatchError(column.name, f"does not fit {column.kind.simple}: {exc}") from exc


def _as_laid_out(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values in a layout from which Arrow casts."""
    kind = values.type
    if pa.types.is_run_end_encoded(kind):
        return pa.chunked_array(map(pc.run_end_decode, values.chunks), kind.value_type)
    if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
        return pa.chunked_array(
            [
                pa.DictionaryArray.from_arrays(one.indices, one.dictionary.cast(pa.string()))
                for one in values.chunks
            ],
            pa.dictionary(kind.index_type, pa.string()),
        )
    return values


def from_pandas(given: Any, wanted: Mapping[str, Field]) -> pa.Table:
    """Return the rows of a frame of pandas, for columns of a queue.

    A column of whole numbers in which one is missing is one of floats to pandas: it is taken where
    what is there is whole, and below 2 ** 53, from where on floats leave numbers out.

    Raises
    ------
    InvalidArgumentError
        When Arrow has no type for one of its columns.
    SchemaMismatchError
        When floats are no whole numbers, and the column is of such; it says how pandas has both.
    """
    try:
        table = pa.Table.from_pandas(given, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as exc:
        raise InvalidArgumentError(f"the frame of pandas has no Arrow types: {exc}") from exc
    for at, name in enumerate(table.column_names):
        column = wanted.get(name)
        if column is not None and pa.types.is_integer(type_of(column)):
            table = table.set_column(at, name, _whole(table[at], column))
    return table


def _whole(values: pa.ChunkedArray, column: Field) -> pa.ChunkedArray:
    if not pa.types.is_floating(values.type):
        return values
    if (pc.max(pc.abs(values)).as_py() or 0) >= _EXACT:
        raise _not_whole(column, "a number is not below 2 ** 53")
    try:
        return values.cast(pa.int64()).cast(type_of(column))
    except pa.ArrowInvalid as exc:
        raise _not_whole(column, str(exc)) from exc


def _not_whole(column: Field, why: str) -> SchemaMismatchError:
    way_out = ".astype('Int64') has whole numbers and nulls"
    return SchemaMismatchError(column.name, f"does not fit {column.kind.simple}: {why}; {way_out}")


#: From here on floats of 64 bits leave whole numbers out.
_EXACT = 2**53


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
_OF_SPARK = ("variant", "void")

_MOST_DIGITS = 38


def parse_fields(ddl: str, what: str = "schema") -> tuple[Field, ...]:
    """Read columns from DDL; errors name what they are for.

    Raises
    ------
    InvalidArgumentError
        When it is none; it names what is in the way.
    SparkNeededError
        When a column is of a type that only Spark reads.
    SchemaMismatchError
        When it is of one that no table keeps.
    """
    checks.require_text(what, ddl)
    try:
        return _Reader(cut(_TOKEN, ddl, _refuse_rest)).columns()
    except InvalidArgumentError as exc:
        raise InvalidArgumentError(f"{what} is {shorten(ddl)}, which is no DDL: {exc}") from exc


class _Reader(TokenReader):
    """Reads columns from left to right."""

    _column = ""
    """The name that was read last."""

    def columns(self) -> tuple[Field, ...]:
        columns = self._fields()
        self._require_end()
        return columns

    def _fields(self) -> tuple[Field, ...]:
        return tuple(self._chain(",", self._field))

    def _field(self) -> Field:
        name = self._column = self._name()
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
        kinds.require_kept(Kind(name), self._column)
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


def _refuse_rest(rest: str) -> NoReturn:
    refuse(f"{rest[:10]!r} is nothing that may stand in it; quote names by backticks")
