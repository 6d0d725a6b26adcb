"""The text of values as a key, as :mod:`spark_queue.delta.input.key_text` has it of Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.input.kinds import Kind
from spark_queue.errors import SparkNeededError

#: How JSON writes what would end a text, or would not be seen.
_ESCAPES = {
    **{chr(code): f"\\u{code:04X}" for code in range(0x20)},
    **dict(zip('"\\\b\f\n\r\t', ('\\"', "\\\\", "\\b", "\\f", "\\n", "\\r", "\\t"), strict=True)),
}
_ESCAPED = re.compile(r'["\\\x00-\x1f]')

#: The first and the last day whose year has four digits, counted from 1970 on.
_EPOCH = date(1970, 1, 1).toordinal()
_DAYS = (date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH)

#: The same in microseconds, with all of the last day.
_DAY = 86_400_000_000
_MICROS = (_DAYS[0] * _DAY, (_DAYS[1] + 1) * _DAY - 1)


# rule again: text of a key
def text_of(values: pa.Array, kind: Kind) -> pa.Array:
    """Return the texts of some values; null where there is none.

    Raises
    ------
    SparkNeededError
        When a time is before the year 1 or after 9999, or the kind is made of others.
    """
    if kind.inner:
        raise SparkNeededError(f"the text of {kind.simple} as a key", "it is made of others")
    if kind.form == "timestamp":
        return pc.binary_join_element_wise(
            pc.replace_substring(_of_times(values), " ", "T"), "Z", ""
        )
    if kind.form == "timestamp_ntz":
        return pc.replace_substring_regex(_of_times(values), r"\.?0{1,6}$", "")
    if kind.form == "date":
        _require_written(values.cast(pa.int32()), _DAYS)
    if pa.types.is_decimal(values.type):
        return each(lambda number: f"{number:f}", values)
    if kind.form == "binary":
        return each(lambda data: data.hex().upper(), values)
    return values.cast(pa.string())


def join_texts(parts: Sequence[pa.Array]) -> pa.Array:
    """Write several texts as one: a JSON array, as Spark writes it, which is never null."""
    rows = zip(*(part.to_pylist() for part in parts), strict=True)
    return pa.array([f"[{','.join(map(quote, row))}]" for row in rows], pa.string())


def quote(text: str | None) -> str:
    """Write a text as JSON, as Spark does."""
    if text is None:
        return "null"
    return f'"{_ESCAPED.sub(lambda found: _ESCAPES[found[0]], text)}"'


def each(text: Callable[..., str | None], *arrays: pa.Array) -> pa.Array:
    """Return the texts that a function gives for the values of each row; null if one of them is."""
    rows: Any = zip(*(values.to_pylist() for values in arrays), strict=True)
    return pa.array([None if None in row else text(*row) for row in rows], pa.string())


def _of_times(values: pa.Array) -> pa.Array:
    micros = values.cast(pa.int64())
    _require_written(micros, _MICROS)
    return micros.cast(pa.timestamp("us")).cast(pa.string())


def _require_written(values: pa.Array, within: tuple[int, int]) -> None:
    found = pc.min_max(values)
    least, most = found["min"].as_py(), found["max"].as_py()
    if least is not None and not within[0] <= least <= most <= within[1]:
        raise SparkNeededError("a key before the year 1, or after 9999", "its text is Spark's own")
