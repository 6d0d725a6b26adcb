"""Batches of a source: each enters a queue once, however often and from wherever it comes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from datetime import timedelta
from threading import Barrier
from typing import Any, cast

import pyarrow as pa
import pytest

from spark_queue.errors import BatchForgottenError, BatchMismatchError, InvalidArgumentError
from tests.conformance.conftest import Make
from tests.conformance.twins import Seen, Twins

pytestmark = pytest.mark.needs("views")

Log = pytest.LogCaptureFixture

#: Of a batch before the last one: its counts.
_UNKNOWN = (None, None, None)


def _items(*ids: str) -> pa.Table:
    nothing = pa.nulls(len(ids), pa.string())
    keys = pa.array([name[0] for name in ids], pa.string())
    return pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "key": keys,
            "tenant": nothing,
            "grp": nothing,
            "prio": pa.nulls(len(ids), pa.int32()),
        }
    )


def _enqueue(one: Seen, *ids: str, batch: Any = None, **options: Any) -> Any:
    done = one.queue.enqueue(_items(*ids), batch=batch, **options)
    outcomes = one.table(done.outcomes).sort_by("_seq").select(["id", "_seq", "outcome"])
    repeated = None if done.repeated is None else astuple(done.repeated)
    return done.step, done.inserted, done.duplicates, done.refused, repeated, outcomes


def _step(one: Seen) -> int:
    step: int = one.queue._main.queue_head().step
    return step


def test_a_batch_that_comes_again_writes_nothing_and_says_what_it_did(twins: Twins) -> None:
    """Of the last batch of a source it is told; of an earlier one nobody knows any more."""
    pair = twins("dedup_key")
    nothing = pair.require_same(_enqueue)
    first = pair.require_same(lambda one: _enqueue(one, "a1", "a2", "b1", batch=("nightly", 3)))
    assert first[:5] == (1, 2, 1, 0, None)
    pair.play(lambda one: one.queue.enqueue(_items("c1")))
    second = pair.require_same(lambda one: _enqueue(one, "c2", "d1", batch=("nightly", 4)))
    other = pair.require_same(lambda one: _enqueue(one, "e1", batch=("hourly", 3)))
    pair.play(lambda one: one.queue.claim(9).ack())

    def again(one: Seen, number: int, source: str = "nightly") -> Any:
        return _enqueue(one, "y1", "z1", batch=(source, number), on_duplicate="raise")

    for _ in range(2):
        *told, outcomes = pair.require_same(again, 4)
        assert (told, outcomes) == ([second[0], 0, 0, 0, (4, 4, 1, 1, 0)], second[-1])
        *told, outcomes = pair.require_same(again, 3)
        assert (told, outcomes) == ([0, 0, 0, 0, (3, 4, *_UNKNOWN)], nothing[-1])
    assert pair.require_same(again, 3, "hourly")[-1] == other[-1]
    assert pair.require_same(_step) == 4
    assert pair.require_same(again, 5)[:2] == (5, 2)


# rule: outcome of a row
def test_a_batch_that_replaces_says_again_what_each_row_became(twins: Twins) -> None:
    """FC-44: its rows replaced each other and follow one that began, whatever has ended since."""
    pair = twins("dedup_key", on_duplicate="replace")
    columns = ["id", "outcome", "duplicate_of", "holder"]

    def put(one: Seen) -> Any:
        done = one.queue.enqueue(_items("k1", "k2", "k3", "l1"), batch=("nightly", 1))
        outcomes = one.table(done.outcomes).sort_by("_seq").select(columns)
        return [tuple(row.values()) for row in outcomes.to_pylist()]

    pair.play(lambda one: one.queue.enqueue(_items("k0", "l0")))
    pair.play(lambda one: one.queue.claim(1, claim_id="first"))
    first = pair.require_same(put)
    assert first == [
        ("k1", "replaced", 5, None),
        ("k2", "replaced", 5, None),
        ("k3", "follows", 1, None),
        ("l1", "replaces", 2, None),
    ]
    step = pair.require_same(_step)
    assert pair.require_same(put) == first
    pair.play(lambda one: one.queue.claim(claim_id="first").ack())
    pair.play(lambda one: one.queue.claim(9).ack())
    assert pair.require_same(put) == first
    assert pair.require_same(_step) == step


def test_a_batch_without_rows_is_no_step(twins: Twins) -> None:
    """It is repeated as others are, and one before the last is, whether or not it ever came."""
    pair = twins()

    def put(one: Seen, number: int, *ids: str) -> Any:
        return _enqueue(one, *ids, batch=("s", number))[:5]

    assert pair.require_same(put, 0) == (0, 0, 0, 0, None)
    assert pair.require_same(put, 0)[4] == (0, 0, 0, 0, 0)
    assert pair.require_same(put, 7, "a") == (2, 1, 0, 0, None)
    assert pair.require_same(put, 8) == (0, 0, 0, 0, None)
    for number in (0, 5):
        assert pair.require_same(put, number, "b") == (0, 0, 0, 0, (number, 7, *_UNKNOWN))
    assert pair.require_same(put, 7, "b") == (2, 0, 0, 0, (7, 7, 1, 0, 0))
    assert pair.require_same(_step) == 2


def test_a_counter_that_begins_again_is_noticed(make: Make, caplog: Log) -> None:
    """Rows of which nothing was written are a warning, or an error where that was asked for."""
    queue = cast("Any", make("dedup_key")).queue
    queue.enqueue(_items("a1", "a2"), batch=("nightly", 2))
    assert queue.enqueue(_items("b1", "b2"), batch=("nightly", 2)).inserted == 0
    assert not caplog.records
    assert queue.enqueue(_items("b1"), batch=("nightly", 2)).repeated.rows == 2
    assert queue.enqueue(_items("b1"), batch=("nightly", 0)).repeated.rows is None
    alike, earlier = (record.getMessage() for record in caplog.records)
    assert "batch 2 of source 'nightly'" in alike
    assert "2 rows, and comes with 1 now" in alike
    assert "batch 0 of source 'nightly' comes after batch 2" in earlier
    for rows in (_items("b1"), _items()):
        with pytest.raises(BatchMismatchError, match=f"comes with {len(rows)} now"):
            queue.enqueue(rows, batch=("nightly", 2), on_mismatch="raise")
    assert queue.counts()["ready"] == 1


@pytest.mark.parametrize(
    "batch",
    ["n", ("n",), ("n", "17"), ("", 1), (1, 1), ("n", -1), ("n", True), ("n" * 201, 1)],
)  # fmt: skip
def test_a_batch_is_a_source_and_a_number(make: Make, batch: Any) -> None:
    """Anything else is refused before the queue is looked at."""
    one = cast("Seen", make())
    with pytest.raises(InvalidArgumentError, match="batch"):
        one.queue.enqueue(_items("a"), batch=batch)
    assert _step(one) == 0


def test_a_source_that_was_silent_is_forgotten_and_its_batches_are_refused_by_name(
    twins: Twins,
) -> None:
    """What is not new is refused, and not taken for new; the source goes on with later numbers."""
    pair = twins(forget_sources_after=timedelta(hours=1))
    pair.play(lambda one: one.queue.enqueue(_items("a"), batch=("old", 5)))
    pair.play(lambda one: one.advance(3000))
    pair.play(lambda one: one.queue.enqueue(_items("b"), batch=("kept", 5)))
    pair.play(lambda one: one.advance(3000))
    assert pair.require_same(lambda one: _enqueue(one, "z", batch=("old", 5)))[:2] == (1, 0)
    pair.play(lambda one: one.queue.enqueue(_items("c"), batch=("new", 1)))
    known = pair.require_same(lambda one: sorted(one.queue._main.queue_head().streams))
    assert known == ["kept", "new"]
    step = pair.require_same(_step)

    for number in (5, 4, 0):
        error, said = pair.require_same(lambda one, n: _enqueue(one, "z", batch=("old", n)), number)
        assert error is BatchForgottenError
        assert f"batch {number} of source 'old'" in said
        assert "go on with batch 6" in said
    assert pair.require_same(_step) == step
    assert pair.require_same(lambda one: _enqueue(one, "z", batch=("kept", 5)))[0] == 2
    assert pair.require_same(lambda one: _enqueue(one, "d", batch=("old", 6)))[1] == 1
    assert pair.require_same(lambda one: _enqueue(one, "z", batch=("old", 4)))[:2] == (0, 0)
    assert pair.require_same(_step) == step + 1


def test_heads_do_not_grow_with_sources_that_are_silent(make: Make) -> None:
    """However many sources there were, a step carries those of the last time only."""
    one = cast("Seen", make(forget_sources_after=timedelta(seconds=25)))
    for number in range(12):
        one.queue.enqueue(_items("a"), batch=(f"source {number}", 0))
        one.advance(10)
    assert len(one.queue._main.queue_head().streams) <= 4
    with pytest.raises(BatchForgottenError, match="'source 0'"):
        one.queue.enqueue(_items("a"), batch=("source 0", 0))


@pytest.mark.needs("disk")
def test_of_two_writers_with_one_batch_one_writes_and_the_other_tells_of_it(
    make: Make, place: str
) -> None:
    """Both have looked before either has committed."""
    one = cast("Any", make())
    one.make(f"{place}/shared")
    handles = [one.open(f"{place}/shared") for _ in range(2)]
    start = Barrier(2)

    def race(queue: Any, number: int) -> tuple[int, int, bool]:
        start.wait()
        done = queue.enqueue(_items("a", "b"), batch=("nightly", number))
        return done.step, done.inserted, done.repeated is not None

    with ThreadPoolExecutor(2) as pool:
        for number in range(3):
            answers = list(pool.map(race, handles, [number, number]))
            assert sorted(answers) == [(number + 1, 0, True), (number + 1, 2, False)]
    assert one.open(f"{place}/shared").stats().ready == 6
