"""Functions, texts and hashes of values without Spark, equal to the last bit."""

from __future__ import annotations

import hashlib
import json
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh64_intdigest

from spark_queue.columns.arrow.arrow_types import of_type
from spark_queue.columns.expressions import COLUMN, LITERAL, Node
from spark_queue.columns.kinds import Kind
from spark_queue.errors import SparkNeededError

#: What Spark's hash begins with.
_SEED = 42


def hash_rows(rows: Iterable[Iterable[bytes | None]]) -> pa.Array:
    """Hash each row as Spark's ``xxhash64`` does; a row of nulls has the hash 42.

    Texts are their UTF-8; whole numbers four bytes, or eight where they are ``bigint``.
    """
    return _as_bigint(map(_hash, rows))


def hash_texts(texts: pa.Array) -> pa.Array:
    """Hash each text as Spark's ``xxhash64`` does, but null stays null."""
    data = texts.cast(pa.binary()).to_pylist()
    return _as_bigint(None if text is None else xxh64_intdigest(text, _SEED) for text in data)


def _hash(values: Iterable[bytes | None]) -> int:
    seed = _SEED
    for value in values:
        if value is not None:
            seed = xxh64_intdigest(value, seed)
    return seed


def _as_bigint(hashes: Iterable[int | None]) -> pa.Array:
    return pa.array(hashes, pa.uint64()).view(pa.int64())


_JSON = json.JSONEncoder(ensure_ascii=False)
_ESCAPE = re.compile(r"(\\(?:u00|.))((?<=u00)..|)")

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
    """Write a text as JSON, as Spark does: what it escapes by a number is in upper case."""
    if text is None:
        return "null"
    quoted = _JSON.encode(text)
    if "\\u" not in quoted:
        return quoted
    return _ESCAPE.sub(lambda found: found[1] + found[2].upper(), quoted)


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


#: The sums of ``sha2`` by their bits; of other bits there is none.
_SHA2 = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}

#: Places in a text are whole numbers below this.
_PLACES = 2**31

#: How many bytes of a whole number, or of what is kept as one, are hashed.
_HASHED = {
    **dict.fromkeys(["tinyint", "smallint", "int", "date", "boolean"], 4),
    **dict.fromkeys(["bigint", "timestamp", "timestamp_ntz"], 8),
}


@dataclass(frozen=True, slots=True)
class Function:
    """How a function is worked out."""

    call: Callable[[Node, list[pa.Array]], pa.Array]
    """Returns its values, given the call and the values of its arguments."""
    fits: Callable[[Node], bool] = lambda _call: True
    """Tells whether it is the same here for what it is called with."""


def _concat_ws(call: Node, values: list[pa.Array]) -> pa.Array:
    rows = zip(*(texts.to_pylist() for texts in _texts(call, values)), strict=True)
    joined = (
        None if mark is None else mark.join(text for text in texts if text is not None)
        for mark, *texts in rows
    )
    return pa.array(joined, pa.string())


def _texts(call: Node, values: list[pa.Array]) -> list[pa.Array]:
    return [text_of(value, node.kind) for value, node in zip(values, call.of, strict=True)]


def _coalesce(call: Node, values: list[pa.Array]) -> pa.Array:
    return pc.coalesce(*(value.cast(_type(call)) for value in values))


def _nullif(call: Node, values: list[pa.Array]) -> pa.Array:
    one, other = (value.cast(_type(call)) for value in values)
    same = pc.fill_null(pc.equal(one, other), fill_value=False)
    return pc.if_else(same, pa.scalar(None, one.type), one)


def _type(call: Node) -> pa.DataType:
    return pa.int64() if call.letter in "wk" else of_type(call.kind)


def _trim(strip: Callable[[str, str], str], _call: Node, values: list[pa.Array]) -> pa.Array:
    return each(lambda text: strip(text, " "), *values)


def _substring(call: Node, values: list[pa.Array]) -> pa.Array:
    place, *most = map(_whole, call.of[1:])

    def part(text: str) -> str:
        start = place - 1 if place > 0 else place + len(text) * (place < 0)
        end = start + most[0] if most else len(text)
        return text[max(start, 0) : max(end, 0)]

    return each(part, values[0])


def _has_places(call: Node) -> bool:
    return all(_is_whole(node) and abs(_whole(node)) < _PLACES for node in call.of[1:])


def _is_whole(node: Node) -> bool:
    return node.what == LITERAL and isinstance(node.value, int)


def _whole(node: Node) -> int:
    return int(node.value or 0)


def _checksum(name: str, _call: Node, values: list[pa.Array]) -> pa.Array:
    sums = values[0].cast(pa.binary())
    return each(lambda data: hashlib.new(name, data, usedforsecurity=False).hexdigest(), sums)


def _sha2(call: Node, values: list[pa.Array]) -> pa.Array:
    name = _SHA2.get(_whole(call.of[1]))
    return pa.nulls(len(values[0]), pa.string()) if name is None else _checksum(name, call, values)


def _xxhash64(call: Node, values: list[pa.Array]) -> pa.Array:
    columns = (_bytes(value, node) for value, node in zip(values, call.of, strict=True))
    return hash_rows(zip(*columns, strict=True))


def _bytes(values: pa.Array, node: Node) -> list[bytes | None]:
    size = _HASHED.get(node.kind.form)
    if size is None:
        return list(values.cast(pa.binary()).to_pylist())
    whole = pa.int32() if node.kind.form == "date" else pa.int64()
    numbers = values.cast(whole).to_pylist()
    return [None if n is None else n.to_bytes(size, "little", signed=True) for n in numbers]


def _has_bytes(call: Node) -> bool:
    """Whether it is known how wide the whole numbers are that are hashed."""
    return all(node.letter in "ty" or node.what == COLUMN for node in call.of)


def _mod(number: int, of: int) -> int:
    return number % of if number >= 0 else -(-number % of)


def _remainders(rest: Callable[[int, int], int], _call: Node, values: list[pa.Array]) -> pa.Array:
    rows = zip(*(value.to_pylist() for value in values), strict=True)
    return pa.array([None if n is None else rest(n, of) for n, of in rows], pa.int64())


def _cast(call: Node, values: list[pa.Array]) -> pa.Array:
    if call.letter == "t":
        return text_of(values[0], call.of[0].kind)
    return values[0].cast(pa.int64())


def _is_wide(call: Node) -> bool:
    """Whether every value fits into the type of the cast."""
    return call.value == "string" or (call.value in ("bigint", "long") and call.of[0].letter != "t")


FUNCTIONS = {
    **dict.fromkeys(["%", "mod"], Function(partial(_remainders, _mod))),
    **dict.fromkeys(["cast", "try_cast"], Function(_cast, _is_wide)),
    **dict.fromkeys(["coalesce", "ifnull", "nvl"], Function(_coalesce)),
    **dict.fromkeys(["sha", "sha1"], Function(partial(_checksum, "sha1"))),
    **dict.fromkeys(["substr", "substring"], Function(_substring, _has_places)),
    "concat": Function(lambda call, of: each(lambda *one: "".join(one), *_texts(call, of))),
    "concat_ws": Function(_concat_ws),
    "ltrim": Function(partial(_trim, str.lstrip)),
    "md5": Function(partial(_checksum, "md5")),
    "nullif": Function(_nullif, lambda call: call.letter != "n"),
    "pmod": Function(partial(_remainders, operator.mod)),
    "rtrim": Function(partial(_trim, str.rstrip)),
    "sha2": Function(_sha2, lambda call: _is_whole(call.of[1])),
    "string": Function(lambda call, values: text_of(values[0], call.of[0].kind)),
    "trim": Function(partial(_trim, str.strip)),
    "xxhash64": Function(_xxhash64, _has_bytes),
}
