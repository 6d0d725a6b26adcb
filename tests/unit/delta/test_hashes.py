"""The dedup keys of a queue as hashes, and the parts of its files."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_queue.state import backlog
from spark_queue.state.backlog import KeyHashes


def _column(*values: int | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.int64())])


def test_a_hash_names_all_items_that_have_it() -> None:
    """Two keys may have one hash, an item may have no key, and most hashes are of nobody."""
    known = KeyHashes()
    known.add(_column(7, -3, None, 7), _column(1, 2, 3, 4))
    assert (sorted(known.seqs_of(7)), known.seqs_of(-3)) == ([1, 4], [2])
    assert (known.seqs_of(0), known.seqs_of(8), len(known)) == ([], [], 3)


def test_many_additions_are_found_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was added in small runs is found after they were merged; large runs are left alone."""
    monkeypatch.setattr(backlog, "_LARGE", 10)
    known = KeyHashes()
    known.add(_column(*range(100, 120)), _column(*range(20)))
    for n in range(40):
        known.add(_column(n % 5), _column(1000 + n))
    assert known.seqs_of(110) == [10]
    assert sorted(known.seqs_of(3)) == list(range(1003, 1040, 5))
    assert len(known) == 60
