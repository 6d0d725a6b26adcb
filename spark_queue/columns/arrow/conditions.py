"""Conditions in SQL without Spark, which are true of the same rows as with it.

They are what the expression of a key may be, and comparisons of values of one type. What compares
fractions, or calls what goes by tables of Java, is Spark's alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue import checks
from spark_queue.columns.arrow.arrow_keys import require_known, values_of
from spark_queue.columns.arrow.functions import FUNCTIONS, Function
from spark_queue.columns.expressions import LITERAL, Node, read_condition
from spark_queue.columns.kinds import Field
from spark_queue.errors import InvalidArgumentError, InvalidExpressionError, SparkNeededError
from spark_queue.wording import shorten

_Compare = Callable[[pa.Array, pa.Array], pa.Array]


def is_true(text: str, columns: Sequence[Field], rows: pa.Table) -> pa.Array:
    """Tell of each row whether a condition is true of it.

    Parameters
    ----------
    text : str
        The condition, in SQL.
    columns : sequence of Field
        The columns that it may name.
    rows : pyarrow.Table
        Their values.

    Raises
    ------
    InvalidArgumentError
        When it is too long or too deep, or when it is wrong for Spark, too: it names a column that
        is not there, or is no condition.
    SparkNeededError
        When it is not plain that Spark would say the same; the error says why.
    """
    checks.require_expression("where", text)
    what = f"the SQL {shorten(text)}"
    try:
        node = read_condition(text, columns)
    except InvalidExpressionError as exc:
        raise InvalidArgumentError(f"where is {shorten(text)}: {exc}") from exc
    except InvalidArgumentError as exc:
        raise SparkNeededError(what, f"{exc!s:.500}") from exc
    require_known(what, node, _KNOWN)
    return pc.fill_null(values_of(node, rows, _KNOWN), fill_value=False)


def _comparison(compare: _Compare) -> Function:
    return Function(lambda _call, values: _of_one_type(compare, *values))


def _of_one_type(compare: _Compare, one: pa.Array, other: pa.Array) -> pa.Array:
    """Compare values; null is of the type of the other."""
    if pa.types.is_null(one.type) and pa.types.is_null(other.type):
        return pa.nulls(len(one), pa.bool_())
    if pa.types.is_null(one.type):
        one = one.cast(other.type)
    if pa.types.is_null(other.type):
        other = other.cast(one.type)
    return compare(one, other)


def _is_same(one: pa.Array, other: pa.Array) -> pa.Array:
    same = pc.fill_null(pc.equal(one, other), fill_value=False)
    return pc.or_(same, pc.and_(pc.is_null(one), pc.is_null(other)))


def _is_in(_call: Node, values: list[pa.Array]) -> pa.Array:
    value, *several = values
    return reduce(pc.or_kleene, (_of_one_type(pc.equal, value, one) for one in several))


def _is_between(_call: Node, values: list[pa.Array]) -> pa.Array:
    value, low, high = values
    return pc.and_kleene(
        _of_one_type(pc.greater_equal, value, low), _of_one_type(pc.less_equal, value, high)
    )


def _connective(join: _Compare) -> Function:
    def call(_call: Node, values: list[pa.Array]) -> pa.Array:
        return reduce(join, (value.cast(pa.bool_()) for value in values))

    return Function(call)


def _is_like(call: Node, values: list[pa.Array]) -> pa.Array:
    return pc.match_like(values[0].cast(pa.string()), str(call.of[1].value))


def _is_plain_pattern(call: Node) -> bool:
    """Whether a pattern is written out, without what takes the meaning of a sign away."""
    pattern = call.of[1]
    return pattern.what == LITERAL and pattern.letter == "t" and "\\" not in str(pattern.value)


_CONDITIONS = {
    **dict.fromkeys(["=", "=="], _comparison(pc.equal)),
    **dict.fromkeys(["<>", "!="], _comparison(pc.not_equal)),
    "<": _comparison(pc.less),
    "<=": _comparison(pc.less_equal),
    ">": _comparison(pc.greater),
    ">=": _comparison(pc.greater_equal),
    "<=>": _comparison(_is_same),
    "and": _connective(pc.and_kleene),
    "or": _connective(pc.or_kleene),
    "not": Function(lambda _call, values: pc.invert(values[0].cast(pa.bool_()))),
    "is": Function(lambda _call, values: pc.is_null(values[0])),
    "in": Function(_is_in),
    "between": Function(_is_between),
    "like": Function(_is_like, _is_plain_pattern),
}

_KNOWN = {**FUNCTIONS, **_CONDITIONS}
