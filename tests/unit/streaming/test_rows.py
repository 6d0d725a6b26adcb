"""The rows of a bucket: packed on their way, kept by number between micro-batches."""

from __future__ import annotations

import pyarrow as pa

from spark_queue.streaming.processor import BUCKET, PACKED, BucketRows, from_bytes, pack, unpack


def structs(*names: str) -> pa.Array:
    """Make rows of one micro-batch."""
    return pa.array([{"name": name} for name in names])


def names(rows: BucketRows, *numbers: int) -> list[str]:
    """Return the names of rows."""
    return [row["name"] for row in rows.take(numbers).to_pylist()]


def test_rows_are_numbered_on() -> None:
    """Rows of a micro-batch and of pages have numbers of their own, in the order they come."""
    rows = BucketRows()
    assert rows.add(structs("a", "b", "c")) == range(3)
    assert names(rows, 2, 0) == ["c", "a"]
    assert rows.add(structs("d", "e")) == range(3, 5)
    assert names(rows, 4, 1, 3) == ["e", "b", "d"]


def test_each_bucket_gets_its_own_rows() -> None:
    """The rows of a batch are packed by bucket, and come out as they went in."""
    batch = pa.RecordBatch.from_pydict(
        {BUCKET: pa.array([2, 0, 2, 1, 0], pa.int32()), "name": ["a", "b", "c", "d", "e"]}
    )
    (found,) = pack([batch])
    by_bucket = {
        row[BUCKET]: from_bytes(row[PACKED]).to_pydict()["name"] for row in found.to_pylist()
    }

    assert by_bucket == {0: ["b", "e"], 1: ["d"], 2: ["a", "c"]}
    again = [name for rows in unpack([found]) for name in rows.to_pydict()["name"]]
    assert sorted(again) == ["a", "b", "c", "d", "e"]
