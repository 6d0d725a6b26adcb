"""Types and names of columns as Spark has them, which types fit, and its JSON of a schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from spark_queue.errors import InvalidArgumentError, SchemaMismatchError, did_you_mean
from spark_queue.log.schema import INPUTS, user_names

#: How many bytes every value of a type counts, where that is the same for all.
WIDTHS = {
    **dict.fromkeys(["boolean", "tinyint"], 1),
    "smallint": 2,
    **dict.fromkeys(["int", "float", "date"], 4),
    **dict.fromkeys(["bigint", "double", "timestamp", "timestamp_ntz"], 8),
}

#: Types whose name in the JSON is another one than in DDL.
_IN_JSON = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
_FROM_JSON = {name: form for form, name in _IN_JSON.items()}

#: Types that are made of others.
NESTED = ("array", "map", "struct")

#: Types of columns as DDL names them.
TYPES = (
    *("array", "bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "map"),
    *("smallint", "string", "struct", "timestamp", "timestamp_ntz", "tinyint"),
)

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")

#: Where Spark's JSON says which texts of a column have a collation.
_COLLATIONS = "__COLLATIONS"

_LIMITED = re.compile(r"(var)?char\(\d+\)")


@dataclass(frozen=True, slots=True)
class Field:
    """A column, a field of a struct, or what an array or a map holds."""

    name: str
    kind: Kind
    nullable: bool = True
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of Spark's."""

    form: str
    """``struct``, ``array`` or ``map``; of any other type its whole name: ``decimal(10,2)``."""
    inner: tuple[Field, ...] = ()
    """The fields of a struct, the element of an array, key and value of a map."""

    @property
    def simple(self) -> str:
        """The type as Spark prints it."""
        if self.form not in NESTED:
            return self.form
        named = self.form == "struct"
        inner = (f"{f.name}:{f.kind.simple}" if named else f.kind.simple for f in self.inner)
        return f"{self.form}<{','.join(inner)}>"

    @property
    def digits(self) -> tuple[int, int] | None:
        """How many digits a decimal has, and how many of them behind the point."""
        found = _DECIMAL.fullmatch(self.form)
        return (int(found[1]), int(found[2])) if found else None


def struct(fields: Iterable[Field]) -> Kind:
    """Return the type of rows with these columns."""
    return Kind("struct", tuple(fields))


def array(element: Kind, *, nullable: bool = True) -> Kind:
    """Return the type of lists of one type."""
    return Kind("array", (Field("element", element, nullable),))


def mapping(key: Kind, value: Kind, *, nullable: bool = True) -> Kind:
    """Return the type of maps; their keys are never null."""
    return Kind("map", (Field("key", key, nullable=False), Field("value", value, nullable)))


def from_json(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    """Read columns from the JSON of a schema, as ``StructType.jsonValue`` gives it."""
    return tuple(_field(field) for field in schema["fields"])


def read(schema: str) -> tuple[Field, ...]:
    """Read columns from the JSON of a schema, as text."""
    return from_json(json.loads(schema))


@lru_cache(maxsize=64)
def read_users(schema: str) -> tuple[Field, ...]:
    """Read the user's columns among all of an item log; the schema as for :func:`read`."""
    users = user_names(schema)
    return tuple(field for field in read(schema) if field.name in users)


def to_json(fields: Sequence[Field]) -> dict[str, Any]:
    """Return the JSON of a schema with these columns, as Delta keeps it in ``schemaString``."""
    return {"type": "struct", "fields": [_json_of_field(field) for field in fields]}


def no_such_type(name: str) -> str:
    """Say that there is no such type, and which was probably meant."""
    return f"there is no type {name!r}{did_you_mean(name, TYPES)}"


def _field(plain: Mapping[str, Any]) -> Field:
    about = plain["metadata"]
    kind = _kind(plain["type"], plain["name"], about.get(_COLLATIONS, {}))
    return Field(plain["name"], kind, plain["nullable"], about.get("comment"))


def _kind(plain: Any, path: str, collations: Mapping[str, str]) -> Kind:
    if path in collations:
        return Kind(f"string collate {collations[path].split('.', 1)[-1]}")
    if isinstance(plain, str):
        return Kind(_FROM_JSON.get(plain, plain))
    form = plain["type"]
    if form == "struct":
        return struct(from_json(plain))

    def inner(name: str) -> Kind:
        return _kind(plain[f"{name}Type"], f"{path}.{name}", collations)

    if form == "array":
        return array(inner("element"), nullable=plain["containsNull"])
    if form == "map":
        return mapping(inner("key"), inner("value"), nullable=plain["valueContainsNull"])
    return Kind(form)


def _json_of_field(field: Field) -> dict[str, Any]:
    about = {} if field.comment is None else {"comment": field.comment}
    kind = _json_of(field.kind)
    return {"name": field.name, "type": kind, "nullable": field.nullable, "metadata": about}


def _json_of(kind: Kind) -> str | dict[str, Any]:
    if kind.form == "struct":
        return to_json(kind.inner)
    if kind.form == "array":
        (element,) = kind.inner
        known = {"elementType": _json_of(element.kind), "containsNull": element.nullable}
        return {"type": "array", **known}
    if kind.form == "map":
        key, value = kind.inner
        types = {"keyType": _json_of(key.kind), "valueType": _json_of(value.kind)}
        return {"type": "map", **types, "valueContainsNull": value.nullable}
    return _IN_JSON.get(kind.form, kind.form)


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
        require_kept(column.kind, column.name)
    require_plain(names)
    for name in names:
        if name.startswith("_"):
            raise SchemaMismatchError(name, "names that start with _ belong to the queue; rename")
        if name in INPUTS:
            raise SchemaMismatchError(
                name, "is read from the frames that are enqueued; leave it out of the schema"
            )


#: Types of Spark's that no table of Delta keeps, and what to keep instead.
_UNKEPT = {
    "time": "a bigint of microseconds, or a string",
    "interval": "a bigint of microseconds",
    "geometry": "a binary, by ST_AsBinary",
    "geography": "a binary, by ST_AsBinary",
}


def require_kept(kind: Kind, name: str) -> None:
    """Refuse a type that Delta does not store, also as a part of another.

    Raises
    ------
    SchemaMismatchError
        It names the column, and says what to keep instead.
    """
    instead = _UNKEPT.get(re.split(r"[ (]", kind.form, maxsplit=1)[0])
    if instead is not None:
        why = f"no table of Delta keeps that, make it {instead}"
        raise SchemaMismatchError(name, f"is {kind.form}: {why}")
    for part in kind.inner:
        require_kept(part.kind, name)


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


#: Types that have all values of another one, by that: no value is changed to fit, as where Delta
#: widens a table. A type of Arrow without a sign has Arrow's name.
_WIDER: Mapping[str, tuple[str, ...]] = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "uint8": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "uint16": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "uint32": ("bigint", "double"),
    "halffloat": ("float", "double"),
    "float": ("double",),
}

#: How many digits the whole numbers of a type have.
_DIGITS = {
    "tinyint": 3,
    "smallint": 5,
    "int": 10,
    "bigint": 19,
    "uint8": 3,
    "uint16": 5,
    "uint32": 10,
    "uint64": 20,
}

#: What the inputs beside the columns are to people.
_WORDS = {"double": "a number", "bigint": "a whole number"}


def widens(given: Kind, wanted: Kind) -> bool:
    """Whether every value of a type is one of another, to the last bit."""
    if wanted.form in NESTED and given.form == wanted.form:
        pairs = zip(given.inner, wanted.inner, strict=False)
        return len(given.inner) == len(wanted.inner) and all(_is_like(*pair) for pair in pairs)
    if given.simple == wanted.simple or given.form == "void":
        return True
    if wanted.digits is not None:
        return _has_digits(given, *wanted.digits)
    return wanted.form in _WIDER.get(given.form, ())


def _is_like(given: Field, wanted: Field) -> bool:
    return given.name == wanted.name and widens(given.kind, wanted.kind)


def _has_digits(given: Kind, precision: int, scale: int) -> bool:
    digits, behind = given.digits or (_DIGITS.get(given.form, precision + 1), 0)
    return digits - behind <= precision - scale and behind <= scale


def require_fit(given: Kind, column: Field) -> None:
    """Refuse a column whose type does not fit a column or an input of the queue.

    Raises
    ------
    SchemaMismatchError
        It names the column, and both types.
    """
    wanted = column.kind
    if widens(given, wanted):
        return
    if column.name not in INPUTS:
        raise SchemaMismatchError(
            column.name,
            f"is {given.simple}, the queue has {wanted.simple}; cast it (up to 0.2 tables of Arrow "
            "and pandas were cast by themselves)",
        )
    # A cost is no key: what is near enough is enough.
    if wanted.form != "double" or given.form not in _DIGITS:
        raise SchemaMismatchError(
            column.name, f"is {given.simple}, not {_WORDS.get(wanted.form, f'a {wanted.form}')}"
        )
