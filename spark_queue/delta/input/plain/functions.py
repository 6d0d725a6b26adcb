"""Functions of expressions without Spark, equal to the last bit.

It is less than :mod:`spark_queue.delta.input.signatures` lists. What goes by tables of Unicode
(``lower``) or by Java's regular expressions is Spark's alone; so is what was not looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.input.expressions import COLUMN, LITERAL, Node
from spark_queue.delta.input.plain.arrow import of_type
from spark_queue.delta.input.plain.hashing import xxhash64
from spark_queue.delta.input.plain.texts import each, text_of

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


def _concat(call: Node, values: list[pa.Array]) -> pa.Array:
    return each(lambda *texts: "".join(texts), *_texts(call, values))


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
    return pa.array(map(xxhash64, zip(*columns, strict=True)), pa.int64())


def _bytes(values: pa.Array, node: Node) -> list[bytes | None]:
    size = _HASHED.get(node.kind.form)
    if size is None:
        return list(values.cast(pa.binary()).to_pylist())
    whole = pa.int32() if node.kind.form == "date" else pa.int64()
    numbers = values.cast(whole).to_pylist()
    return [None if n is None else n.to_bytes(size, "little", signed=True) for n in numbers]


def _has_bytes(call: Node) -> bool:
    """Tell whether it is known how wide the whole numbers are that are hashed."""
    return all(node.letter in "ty" or node.what == COLUMN for node in call.of)


def _pmod(_call: Node, values: list[pa.Array]) -> pa.Array:
    return _remainders(lambda number, of: number % of, values)


def _mod(_call: Node, values: list[pa.Array]) -> pa.Array:
    return _remainders(lambda n, of: n % of if n >= 0 else -(-n % of), values)


def _remainders(rest: Callable[[int, int], int], values: list[pa.Array]) -> pa.Array:
    rows = zip(*(value.to_pylist() for value in values), strict=True)
    return pa.array([None if n is None else rest(n, of) for n, of in rows], pa.int64())


def _cast(call: Node, values: list[pa.Array]) -> pa.Array:
    if call.letter == "t":
        return text_of(values[0], call.of[0].kind)
    return values[0].cast(pa.int64())


def _is_wide(call: Node) -> bool:
    """Tell whether every value fits into the type of the cast."""
    return call.value == "string" or (call.value in ("bigint", "long") and call.of[0].letter != "t")


_CAST = Function(_cast, _is_wide)
_CHOICE = Function(_coalesce)
_SHA1 = Function(partial(_checksum, "sha1"))
_PART = Function(_substring, _has_places)
_REST = Function(_mod)

FUNCTIONS = {
    "%": _REST,
    "cast": _CAST,
    "coalesce": _CHOICE,
    "concat": Function(_concat),
    "concat_ws": Function(_concat_ws),
    "ifnull": _CHOICE,
    "ltrim": Function(partial(_trim, str.lstrip)),
    "md5": Function(partial(_checksum, "md5")),
    "mod": _REST,
    "nullif": Function(_nullif, lambda call: call.letter != "n"),
    "nvl": _CHOICE,
    "pmod": Function(_pmod),
    "rtrim": Function(partial(_trim, str.rstrip)),
    "sha": _SHA1,
    "sha1": _SHA1,
    "sha2": Function(_sha2, lambda call: _is_whole(call.of[1])),
    "string": Function(lambda call, values: text_of(values[0], call.of[0].kind)),
    "substr": _PART,
    "substring": _PART,
    "trim": Function(partial(_trim, str.strip)),
    "try_cast": _CAST,
    "xxhash64": Function(_xxhash64, _has_bytes),
}
