"""The dedup keys of a queue, as hashes: who has none of them holds no key."""

from __future__ import annotations

from bisect import bisect_left

import pyarrow as pa
import pyarrow.compute as pc

#: Runs that are looked at one after another, beside those that are too large to be merged.
_RUNS = 16
_LARGE = 1_000_000


class KeyHashes:
    """The hashes of dedup keys, each with the seqs of the items that have it.

    It takes 16 bytes an item: the hash, which tells in a microsecond that a key is new, and the
    seq, by which the one file is found that has the item of a key that is not. The key of an item
    that has ended may be among them.

    Attributes
    ----------
    step : int
        All items up to this step of the item log are here that may hold a key.
    """

    def __init__(self) -> None:
        self.step = -1
        self._runs: list[_HashRun] = []

    def __len__(self) -> int:
        return sum(len(run.hashes) for run in self._runs)

    def add(self, hashes: pa.ChunkedArray, seqs: pa.ChunkedArray) -> None:
        """Add items: their hashes, where they have any, and their seqs."""
        items = pa.table({"hash": hashes, "seq": seqs})
        items = items.filter(pc.is_valid(items["hash"]))
        if items.num_rows:
            self._runs.append(_HashRun(items))
        small = [run for run in self._runs if len(run.hashes) < _LARGE]
        if len(small) > _RUNS:
            large = [run for run in self._runs if len(run.hashes) >= _LARGE]
            self._runs = [*large, _HashRun(pa.concat_tables(run.items for run in small))]

    def seqs_of(self, hashed: int) -> list[int]:
        """Return the items that have a key of a hash."""
        return [seq for run in self._runs for seq in run.seqs_of(hashed)]


class _HashRun:
    """Items in the order of their hashes."""

    __slots__ = ("hashes", "items", "seqs")

    def __init__(self, items: pa.Table) -> None:
        order = pc.sort_indices(items["hash"].combine_chunks())
        self.items = items.take(order).combine_chunks()
        # Each is one array, without nulls and from its first value on: what is in it can be seen.
        self.hashes, self.seqs = (_view(self.items[name]) for name in ("hash", "seq"))

    def seqs_of(self, hashed: int) -> list[int]:
        found, at = [], bisect_left(self.hashes, hashed)
        while at < len(self.hashes) and self.hashes[at] == hashed:
            found.append(self.seqs[at])
            at += 1
        return found


def _view(column: pa.ChunkedArray) -> memoryview:
    (values,) = column.cast(pa.int64()).chunks
    _, data = values.buffers()
    whole: memoryview = memoryview(data).cast("q")
    return whole[values.offset : values.offset + len(values)]
