"""Keys of rows without Spark: the same texts, numbers and hashes; and rows marked by them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.columns import expressions, key_rules
from spark_queue.columns.arrow import functions
from spark_queue.columns.arrow.arrow_types import of_type
from spark_queue.columns.arrow.functions import FUNCTIONS, Function
from spark_queue.columns.expressions import COLUMN, LITERAL, Expression, Node
from spark_queue.columns.kinds import Field
from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError, SparkNeededError
from spark_queue.flow import stored_units
from spark_queue.log.log_columns import LogColumn
from spark_queue.log.schema import BOUNDED, INPUTS, QUEUE_COLUMNS, inputs_of
from spark_queue.rules import limiting, pacing
from spark_queue.rules.pacing import Paces
from spark_queue.wording import shorten

#: Whole numbers that a ``bigint`` holds, and an ``int``.
_LONG = 2**63
_INT = 2**31

#: The types of units, beside decimals.
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")

#: How times are read that are written out, by the letters of their types.
_TIMES = {"d": date.fromisoformat, "i": datetime.fromisoformat}


def require_keys(columns: Sequence[Field], config: QueueConfig) -> None:
    """Check that the keys of a configuration can be computed here as Spark computes them.

    Raises
    ------
    InvalidConfigError
        When a key that tells items apart is no expression over the columns, or may be another text
        in another session: Spark would refuse it, too.
    SparkNeededError
        When a key is an expression of which only Spark knows what it gives; it is named.
    """
    key_rules.require_same_everywhere(columns, config)
    for option, text in key_rules.of(config):
        _parse(option, text, tuple(columns))
    if config.priority is not None:
        _priority_of(config.priority, columns)
    for text in stored_units(config):
        _units_of(text, columns)


def keys_of(
    columns: Sequence[Field], config: QueueConfig, rows: pa.Table, *, is_again: bool = False
) -> dict[str, pa.Array]:
    """Return the columns of a configuration's keys, and of the priority; as :func:`texts_of`."""
    found: dict[str, pa.Array] = dict.fromkeys(
        key_rules.KEYS.values(), pa.nulls(rows.num_rows, pa.string())
    )
    for option, name in key_rules.KEYS.items():
        if (text := getattr(config, option)) is not None:
            found[name] = texts_of(option, text, columns, rows)
    found["_flow_keys"] = _flow_keys(columns, config, rows)
    found["_units"] = _units(columns, config, rows, found, is_again=is_again)
    if config.priority is None:
        found["_priority"] = pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows)
    else:
        found["_priority"] = priorities_of(config.priority, columns, rows)
    return found


def _flow_keys(columns: Sequence[Field], config: QueueConfig, rows: pa.Table) -> pa.Array:
    """Return of each row the bounded keys that have no column of their own, as JSON."""
    texts = [texts_of(name, text, columns, rows) for name, text in key_rules.stored_of(config)]
    return functions.join_texts(texts) if texts else pa.nulls(rows.num_rows, pa.string())


def _units(
    columns: Sequence[Field],
    config: QueueConfig,
    rows: pa.Table,
    keys: Mapping[str, pa.Array],
    *,
    is_again: bool,
) -> pa.Array:
    """Return of each row the units that it takes of keys, as JSON."""
    texts = stored_units(config)
    if not texts:
        return pa.nulls(rows.num_rows, pa.string())
    nodes = [_units_of(text, columns) for text in texts]
    lists = [values_of(node, rows).cast(pa.float64()).to_pylist() for node in nodes]
    names = ("_fair_key", "_group_key", "_flow_keys")
    of_keys = pa.table({name: keys[name] for name in names}).to_pylist()
    paces, found = Paces(config), []
    for units, row in zip(zip(*lists, strict=True), of_keys, strict=True):
        pacing.require_units(texts, units)
        if not is_again:
            paces.require_fit(limiting.keys_of(row), units)
        found.append(json.dumps(units))
    return pa.array(found, pa.string())


def texts_of(option: str, text: str, columns: Sequence[Field], rows: pa.Table) -> pa.Array:
    """Return the key of each row.

    Parameters
    ----------
    option : str
        The option of the configuration, for errors.
    text : str
        Its expression.
    columns : sequence of Field
        The user's columns.
    rows : pyarrow.Table
        Their values, of :func:`arrow.schema_of`.

    Raises
    ------
    SparkNeededError
        When only Spark knows the text; the errors are those of :func:`require_keys`.
    """
    return _text(_parse(option, text, tuple(columns)), rows)


def priorities_of(text: str, columns: Sequence[Field], rows: pa.Table) -> pa.Array:
    """Return the priority of each row; null counts as 0.

    Raises
    ------
    InvalidArgumentError
        When one is no ``int``.
    SparkNeededError
        When the expression is not known here.
    """
    values = values_of(_priority_of(text, columns), rows).cast(pa.int64())
    for number in pc.min_max(values).values():
        if number.is_valid and not -_INT <= number.as_py() < _INT:
            raise InvalidArgumentError(
                f"priority {shorten(text)} is {number} in a row; it must be an int"
            )
    return pc.fill_null(values, 0).cast(pa.int32())


@lru_cache(maxsize=256)
def _parse(option: str, text: str, columns: tuple[Field, ...]) -> Expression:
    """Read an expression once, however many steps compute its key."""
    expression = _understood(option, text, columns)
    for node in _nodes(expression):
        require_known(f"{option} {shorten(text)}", node)
        if node.kind.inner:
            raise _needs_spark(option, text, f"{node.kind.simple} is made of others")
    return expression


def _priority_of(text: str, columns: Sequence[Field]) -> Node:
    node = _understood("priority", text, columns).node
    if node is None or node.letter not in "wkbn":
        raise _needs_spark("priority", text, "it is not of whole numbers")
    require_known(f"priority {shorten(text)}", node)
    return node


def _units_of(text: str, columns: Sequence[Field]) -> Node:
    node = _understood("units", text, columns).node
    if node is None or not (node.kind.digits or node.kind.form in _NUMBERS):
        raise _needs_spark("units", text, "they are not of numbers")
    require_known(f"units {shorten(text)}", node)
    return node


def _understood(option: str, text: str, columns: Sequence[Field]) -> Expression:
    try:
        return expressions.read(text, columns)
    except InvalidArgumentError as exc:
        raise _needs_spark(option, text, str(exc)) from exc


def _nodes(expression: Expression) -> Iterator[Node]:
    if expression.node is not None:
        yield expression.node
    for part in expression.parts:
        yield from _nodes(part)


def require_known(what: str, node: Node, known: Mapping[str, Function] = FUNCTIONS) -> None:
    """Check that a value can be worked out here as Spark works it out.

    Parameters
    ----------
    what : str
        What it is a value of, for errors.
    node : Node
        How it comes about.
    known : mapping
        What may be called.

    Raises
    ------
    SparkNeededError
        When something in it is Spark's alone.
    """
    for argument in node.of:
        require_known(what, argument, known)
    if node.what == COLUMN:
        return
    if node.what == LITERAL:
        if not _is_written(node):
            raise SparkNeededError(what, f"{node.value} is no {node.kind.simple}")
    elif node.what not in known or not known[node.what].fits(node):
        of = ", ".join(argument.kind.simple for argument in node.of)
        shown = f"{node.what}({of})" if node.of else node.what
        raise SparkNeededError(what, f"{shown} is not among what is the same without it")


def _is_written(literal: Node) -> bool:
    if literal.letter in _TIMES:
        return _time(literal) is not None
    return not isinstance(literal.value, int) or -_LONG <= literal.value < _LONG


def _needs_spark(option: str, text: str, why: str) -> SparkNeededError:
    return SparkNeededError(f"{option} {shorten(text)}", why)


def _text(expression: Expression, rows: pa.Table) -> pa.Array:
    if expression.node is None:
        return functions.join_texts([_text(part, rows) for part in expression.parts])
    return functions.text_of(values_of(expression.node, rows), expression.node.kind)


def values_of(node: Node, rows: pa.Table, known: Mapping[str, Function] = FUNCTIONS) -> pa.Array:
    """Return a value of each row, which :func:`require_known` was asked about."""
    if node.what == COLUMN:
        return rows[str(node.value)].combine_chunks()
    if node.what == LITERAL:
        return _literal(node, rows.num_rows)
    of = [values_of(argument, rows, known) for argument in node.of]
    return known[node.what].call(node, of)


def _literal(node: Node, count: int) -> pa.Array:
    value = _time(node) if node.letter in _TIMES else node.value
    return pa.repeat(pa.scalar(value, of_type(node.kind)), count)


def _time(literal: Node) -> date | None:
    """Return the day or the instant that is written; ``None`` where the calendar has none."""
    try:
        return _TIMES[literal.letter](str(literal.value).replace("Z", "+00:00"))
    except ValueError:
        return None


def mark_rows(
    rows: pa.Table, columns: Sequence[Field], config: QueueConfig, *, is_again: bool = False
) -> pa.Table:
    """Add the queue's columns to rows: keys, priority, cost, times and the hash.

    Parameters
    ----------
    rows : pyarrow.Table
        The rows, of :func:`~spark_queue.columns.arrow.rows.fit_rows`.
    columns : sequence of Field
        The user's columns.
    config : QueueConfig
        The keys.
    is_again : bool
        Whether they were items before: such have more units than a burst, as where that is lowered.

    Returns
    -------
    pyarrow.Table
        The rows of :func:`~spark_queue.columns.columns.add_keys`, in this process.

    Raises
    ------
    InvalidArgumentError
        When a priority is no ``int``.
    SchemaMismatchError
        When a cost is no number above 0.
    SparkNeededError
        When only Spark knows a key of the configuration.
    """
    made = {column.name: rows[column.name] for column in columns}
    made |= keys_of(columns, config, rows, is_again=is_again)
    given = inputs_of(made).keys() & set(rows.column_names)
    for name, column in INPUTS.items():
        values = rows[name] if name in given else None
        made[column.name] = _input(column, values, rows.num_rows)
    made["_dedup_hash"] = functions.hash_texts(made["_dedup_key"])
    return pa.table(made)


def _input(
    column: LogColumn, values: pa.ChunkedArray | pa.Array | None, count: int
) -> pa.ChunkedArray | pa.Array:
    if values is None:
        values = pa.nulls(count, QUEUE_COLUMNS.arrow.field(column.name).type)
    elif column.name in BOUNDED:
        BOUNDED[column.name].require(values.to_pylist())
    default = None if column.input is None else column.input.default
    return values if default is None else pc.fill_null(values, default)
