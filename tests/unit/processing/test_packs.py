from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone

import pyarrow as pa
import pytest

from spark_queue.processing.executor import PACK, in_zone, pack, unpacking


def _items(groups: list[str | None]) -> pa.Table:
    seqs = list(range(len(groups), 0, -1))
    return pa.table({"_seq": seqs, "_group_key": pa.array(groups, pa.string())})


def _unpacked(packed: pa.Table, rows: int = 0) -> list[list[tuple[str | None, int]]]:
    """Return group and seq of the items of each batch that a runner gets."""
    seen: list[list[tuple[str | None, int]]] = []

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = batch.to_pydict()
            seen.append(list(zip(found["_group_key"], found["_seq"], strict=True)))
            yield batch

    assert len(list(unpacking(run, rows)(packed.to_batches()))) == len(seen)
    return seen


# rule: work of a group
@pytest.mark.parametrize("parts", [1, 2, 3, 200])
def test_a_group_is_in_one_part_in_its_order(parts: int) -> None:
    """However many parts there are: no group is in two, and all items are there once."""
    packed = pack(_items(["a", None, "b", "a", "c", None, "b", "a"]), parts)

    batches = _unpacked(packed)

    assert 1 <= len(batches) <= parts
    assert packed[PACK].num_chunks == len(batches)
    assert sorted(seq for batch in batches for _, seq in batch) == list(range(1, 9))
    for name in "abc":
        mine = [[seq for group, seq in batch if group == name] for batch in batches]
        assert sum(map(bool, mine)) == 1
        assert all(seqs == sorted(seqs) for seqs in mine)


@pytest.mark.parametrize(("parts", "sizes"), [(1, [7]), (3, [3, 3, 1]), (9, [1] * 7)])
def test_items_without_groups_are_spread_evenly(parts: int, sizes: list[int]) -> None:
    """Each part has about as many, in the order of their seqs."""
    batches = _unpacked(pack(_items([None] * 7), parts))

    assert [len(batch) for batch in batches] == sizes
    assert [seq for batch in batches for _, seq in batch] == list(range(1, 8))


def test_a_batch_has_no_more_items_than_the_session_says() -> None:
    """A part is given to the handler in several batches."""
    batches = _unpacked(pack(_items([None] * 7), 1), rows=3)

    assert [len(batch) for batch in batches] == [3, 3, 1]


def test_instants_are_in_the_zone_of_the_session() -> None:
    """They are the same instants, and a handler reads them as Spark would give them."""
    at = datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc)
    items = pa.table({"at": pa.array([at], pa.timestamp("us", "UTC")), "n": [1]})

    found = in_zone(items, "Europe/Berlin").to_pylist()[0]["at"]

    assert found == at
    assert found.isoformat() == "2026-03-29T03:30:00+02:00"
