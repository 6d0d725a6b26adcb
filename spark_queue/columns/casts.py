"""Columns of frames, and columns of a queue that they go into: one table for every way in.

No value is changed to fit. A type goes into another one that has all its values, as Delta widens
the columns of its tables; so what is taken does not depend on the values of a day.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_queue.columns.kinds import NESTED, Field, Kind
from spark_queue.errors import SchemaMismatchError
from spark_queue.log.schema import INPUTS

#: Types that have all values of another one; what Arrow has without a sign is named as it does.
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


def require(given: Kind, column: Field) -> None:
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
