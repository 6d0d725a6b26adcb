"""The rows of a bucket: packed on their way, kept by number between micro-batches."""

from __future__ import annotations

import pyarrow as pa

from spark_queue.streaming.processor import BUCKET, PACKED, BucketRows, from_bytes, pack, unpack


def structs(*names: str) -> pa.ChunkedArray:
    """Make rows of one micro-batch."""
    return pa.chunked_array([pa.array([{"name": name} for name in names])])


def names(rows: BucketRows, *numbers: int) -> list[str]:
    """Return the names of rows."""
    return [row["name"] for row in rows.take(numbers).to_pylist()]


def test_a_row_keeps_its_number_for_as_long_as_it_is_kept() -> None:
    """New rows are numbered on, whatever was dropped, also after rows were written and read."""
    rows = BucketRows()
    assert rows.add(structs("a", "b", "c")) == 0
    later = rows.select([2, 0])
    for kept in (later, BucketRows.restore(later.plain(), later.pack())):
        assert kept.add(structs("d", "e")) == 3
        assert names(kept, 0, 2, 3, 4) == ["a", "c", "d", "e"]


def test_numbers_go_on_when_nothing_is_kept() -> None:
    """A number is never given twice, and no rows take no room."""
    rows = BucketRows()
    rows.add(structs("a", "b"))
    later = rows.select([])

    assert (later.plain(), later.pack()) == (([], 2), None)
    assert later.add(structs("c")) == 2
    assert names(later, 2) == ["c"]


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
