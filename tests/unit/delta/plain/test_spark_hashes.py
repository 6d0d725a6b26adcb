"""Hashes of keys without Spark are those that Spark 4.2.0 gave.

Each was read from ``SELECT xxhash64(...)`` of the same values, in a session of UTC.
"""

from __future__ import annotations

from datetime import date, datetime, timezone

import pyarrow as pa
import pytest

from spark_queue.columns.arrow import arrow_keys, functions
from spark_queue.columns.arrow.arrow_keys import mark_rows
from spark_queue.columns.arrow.arrow_types import parse_fields, schema_of
from spark_queue.config import QueueConfig

COLUMNS = parse_fields(
    "text string, other string, data binary, flag boolean, tiny tinyint, small smallint, "
    "whole int, long bigint, day date, at timestamp, local timestamp_ntz, price decimal(38,10)"
)

DAY = date(2026, 1, 31)
AT = datetime(2026, 11, 1, 5, 30, 0, 500000, tzinfo=timezone.utc)
LOCAL = datetime(1582, 10, 4, 12)  # noqa: DTZ001

#: A value of one column, and its hash.
ONE = [
    ("text", "", -7444071767201028348),
    ("text", "a", -8582455328737087284),
    ("text", "née 😀", 7200452368623677311),
    ("text", "x" * 31, -1716462135722163746),
    ("text", "x" * 32, 1299777543150008824),
    ("text", "x" * 33, -2751654916054470392),
    ("text", "0123456789" * 10, 6379203369694145893),
    ("text", None, 42),
    ("data", b"", -7444071767201028348),
    ("data", b"\x00\xff", 879945414100663330),
    ("data", b"\x80\x00\x00\x00\x00\x00\x00\x00\xff", -1595557239420060331),
    ("flag", True, -6698625589789238999),
    ("flag", False, 3614696996920510707),
    ("tiny", -128, 4160238337661960656),
    ("small", 32767, 8952525448871805501),
    ("whole", 0, 3614696996920510707),
    ("whole", -7, 4987848727247274714),
    ("whole", -(2**31), 2073849959933241805),
    ("whole", 2**31 - 1, 1508894993788531228),
    ("long", 0, -5252525462095825812),
    ("long", -1, 3858142552250413010),
    ("long", 2**63 - 1, -3246596055638297850),
    ("long", -(2**63), -8619748838626508300),
    ("day", DAY, 4137765571692978914),
    ("day", date(1, 1, 1), 6773727150484150602),
    ("at", AT, -2094594693180988095),
    ("local", LOCAL, 257409730448820879),
]

#: Several columns, each hashed from the hash of those before it, and the last hash.
SEVERAL = [
    ("text, long", {"text": "a", "long": 1}, -1010403264180844141),
    ("long, text", {"text": "a", "long": 1}, -8527884376001292090),
    ("text, other, long", {"text": "a", "long": 1}, -1010403264180844141),
    ("text, long", {}, 42),
    (
        "text, data, whole, long, flag, day, at, local",
        {
            "text": "a",
            "data": b"\x00\xff",
            "whole": 7,
            "long": 8,
            "flag": True,
            "day": DAY,
            "at": AT,
            "local": LOCAL,
        },
        6458762790787083226,
    ),
]


def _table(values: dict[str, object]) -> pa.Table:
    row = {column.name: values.get(column.name) for column in COLUMNS}
    return pa.Table.from_pylist([row], schema_of(COLUMNS))


@pytest.mark.parametrize(
    ("names", "values", "expected"),
    [*((name, {name: value}, expected) for name, value, expected in ONE), *SEVERAL],
)
def test_hash_is_that_of_spark(names: str, values: dict[str, object], expected: int) -> None:
    """``xxhash64`` gives the number that Spark gives, of each type that it takes."""
    found = arrow_keys.texts_of("group_key", f"xxhash64({names})", COLUMNS, _table(values))

    assert found.to_pylist() == [str(expected)]


@pytest.mark.parametrize(
    ("key", "values", "expected"),
    [
        ("text", {"text": "née 😀"}, 7200452368623677311),
        ("text", {}, None),
        ("price", {"price": 1}, 5748436213605669211),
    ],
)
def test_dedup_key_is_found_by_the_hash_of_its_text(
    key: str, values: dict[str, object], expected: int | None
) -> None:
    """A dedup key is hashed as its text, and an item without one has no hash."""
    marked = mark_rows(_table(values), COLUMNS, QueueConfig(dedup_key=key))

    assert marked["_dedup_hash"].to_pylist() == [expected]


def test_hashes_are_of_a_column_that_is_part_of_another() -> None:
    """A slice of texts has the hashes of its own."""
    texts = pa.array(["b", "a", None])

    assert functions.hash_texts(texts[1:]).to_pylist() == [-8582455328737087284, None]
