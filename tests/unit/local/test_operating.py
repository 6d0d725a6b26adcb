"""What an operator does to a queue without Spark, and what its steps leave."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from spark_queue.clock import ManualClock
from spark_queue.errors import InvalidArgumentError, SparkNeededError
from spark_queue.local_queue import LocalQueue
from tests.unit.local.conftest import Make

Again = Callable[[], LocalQueue]

_HOUR = timedelta(hours=1)

#: When an item may run first, and until when.
_TIMES = ("_available_at", "_expires_at")


def _ids(queue: LocalQueue, state: str) -> list[str]:
    rows = queue.status().to_pylist()
    return [row["id"] for row in rows if row["_state"] == state]


def _put(queue: LocalQueue, ids: str, **columns: object) -> None:
    queue.enqueue([{"id": name, **columns} for name in ids])


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ({"_seq": [1, 3]}, "bd"),
        ({"id": "b"}, "acd"),
        ({"t": None, "id": ["a", "d"]}, "bcd"),
        (pc.field("_seq") > 2, "ab"),
        ("t IS NULL AND id IN ('a', 'd')", "bcd"),
        ("_state = 'ready' AND NOT _seq < 3", "ab"),
        pytest.param(" or ".join(["_seq = 3"] * 3_000), "abd", id="chain"),
    ],
)
def test_items_are_cancelled_by_columns(make: Make, where: Any, left: str) -> None:
    """Values of columns say which, all of them; or an expression does."""
    queue = make("id string, t string")
    _put(queue, "abc", t=None)
    _put(queue, "d", t="x")

    assert queue.cancel(where, dry_run=True) == 4 - len(left)
    assert queue.cancel(where) == 4 - len(left)
    assert _ids(queue, "ready") == list(left)
    assert queue.counts()["cancelled"] == 4 - len(left)
    assert queue.cancel(where) == 0


@pytest.mark.parametrize(
    ("where", "error", "named"),
    [
        ("lower(id) = 'a'", SparkNeededError, "SQL"),
        ("idd = 'a'", InvalidArgumentError, "no column; did you mean 'id'"),
        ("id", InvalidArgumentError, "no condition"),
        (" ", InvalidArgumentError, "where"),
        pytest.param("(" * 20_000, InvalidArgumentError, "too deep", id="brackets"),
        pytest.param("not " * 15_000 + "true", InvalidArgumentError, "too deep", id="nots"),
        pytest.param("true or " * 20_000, InvalidArgumentError, "160,000 signs", id="long"),
        pytest.param("true" + " is null" * 999, SparkNeededError, "200 operators", id="chain"),
        ({}, InvalidArgumentError, "name columns"),
        (None, InvalidArgumentError, "name columns"),
        ({"idd": "a"}, InvalidArgumentError, "idd"),
        ({"_seq": "first"}, InvalidArgumentError, "_seq"),
        ({"_seq": [0, 1.5]}, InvalidArgumentError, "1.5.*bigint, which has no such value"),
        ({"_enqueued_at": 5}, InvalidArgumentError, "is 5.*timestamp, which has no such value"),
        ({"id": b"a"}, InvalidArgumentError, "not binary"),
        ({"_state": "nope"}, InvalidArgumentError, "_state"),
        (pc.field("nothing") == 1, InvalidArgumentError, "nothing"),
    ],
)
def test_what_is_not_said_clearly_is_refused(
    make: Make, where: Any, error: type[Exception], named: str
) -> None:
    """It is named, and nothing was changed."""
    queue = make()
    _put(queue, "a")

    for verb in (queue.cancel, queue.redrive, queue.purge):
        with pytest.raises(error, match=named):
            verb(where)
    assert queue.counts()["ready"] == 1


def test_a_reader_by_name_redrives_for_itself(make: Make) -> None:
    """Its item is ready again, in its place and with no failure; other readers keep theirs."""
    queue = make()
    _put(queue, "ab")
    first = queue.reader("first")
    first.claim(1).settle_each({1: ("dead", "bad")})

    assert first.redrive({"_seq": 1}) == 1
    assert [row["id"] for row in first.claim(2).rows] == ["a", "b"]
    assert first.status()["_attempts"].to_pylist() == [0, 0]


def test_what_a_reader_redrives_has_its_delay_and_deadline_behind_it(
    make: Make, clock: ManualClock, place: str
) -> None:
    """It is said to be runnable, expires no more, and a clone serves it, whoever held it."""
    queue = make()
    now = clock.now()
    first = queue.reader("first")
    times = {"available_at": now + 4 * _HOUR, "expires_at": now + _HOUR}
    queue.enqueue([{"id": "a", **times}])
    clock.advance(2 * _HOUR)
    assert queue.maintain().expired == 1

    assert first.redrive("_state = 'expired'") == 1

    assert first.status().select(list(_TIMES)).to_pylist() == [dict.fromkeys(_TIMES)]
    assert queue.maintain(dry_run=True) == 0
    assert queue.maintain().expired == 0
    held = first.claim(1)
    clone = queue.clone(f"{place}/clone").reader("first")
    assert [row["id"] for row in (*held.rows, *clone.claim(1).rows)] == ["a", "a"]


def test_counts_are_told_by_key(make: Make, clock: ManualClock) -> None:
    """How many items of a key are where, and how long they waited."""
    queue = make("id string, t string", dedup_key="id", fair_key="t")
    _put(queue, "abc", t="x")
    _put(queue, "de", t="y")
    _put(queue, "a", t="x")
    clock.advance(timedelta(seconds=5))
    queue.claim(3).ack()

    stats = queue.stats()

    assert (stats.ready, stats.acked, stats.refused, stats.enqueued) == (2, 3, 1, 5)
    assert stats.oldest_age == timedelta(seconds=5)
    by_key = {row["fair_key"]: row for row in pa.table(stats.per_key).to_pylist()}
    assert (by_key["x"]["acked"], by_key["x"]["ready"], by_key["x"]["refused"]) == (2, 1, 1)
    assert (by_key["y"]["acked"], by_key["y"]["ready"], by_key["y"]["refused"]) == (1, 1, 0)
    assert (by_key["y"]["wait_p50"], by_key["y"]["wait_max"]) == (5.0, 5.0)
    assert by_key["x"]["oldest_age"] == 5.0


def test_changed_weights_give_what_waits_other_turns(make: Make, again: Again) -> None:
    """From the next claim on a key with twice the weight gets twice the items, in any process."""
    queue = make("id string, t string", fair_key="t")
    queue.enqueue([{"id": f"{t}{n}", "t": t} for t in "ab" for n in range(12)])
    assert queue.claim(6).count == 6

    queue.configure(weights={"a": 2.0})

    for one in (queue, again()):
        told = [row["t"] for row in one.claim(6).rows]
        assert (told.count("a"), told.count("b")) == (4, 2)


def test_two_who_change_weights_at_once_both_do(make: Make, again: Again) -> None:
    """A change is decided in its step: it replaces what it names, and nothing else."""
    queue, start = make("id string, t string", fair_key="t"), Barrier(2)

    def change(handle: LocalQueue, key: str) -> None:
        start.wait()
        for weight in range(2, 6):
            handle.configure(weights={key: float(weight)})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(change, (queue, again()), "ab"))
    assert dict(again().config.weights) == {"a": 5.0, "b": 5.0}


def test_a_queue_goes_on_from_its_checkpoint(make: Make, again: Again) -> None:
    """Whoever opens it then gives out what comes next, and nothing twice."""
    queue = make("id string, t string", fair_key="t", weights={"a": 3.0})
    queue.enqueue([{"id": f"{t}{n}", "t": t} for t in "ab" for n in range(6)])
    queue.claim(3).ack()
    held = queue.claim(1)
    queue.claim(1).release()

    done = [queue.maintain() for _ in range(2)]
    queue.close()

    assert done[0].checkpoint == done[1].checkpoint
    other = again()
    rest = other.claim(100)
    assert {row["_seq"] for row in rest.rows}.isdisjoint(held.table["_seq"].to_pylist())
    assert rest.count == 8
    rest.ack()
    held.ack()
    assert other.counts()["acked"] == 12


def test_a_queue_that_was_dropped_can_be_closed(make: Make) -> None:
    """What is remembered of it is forgotten; its logs are not asked for."""
    queue = make()
    queue.enqueue({"id": "a"})
    LocalQueue.drop(queue.name)
    queue.close()


def test_upkeep_merges_the_files_of_both_logs(make: Make, again: Again) -> None:
    """Many steps come to few files with the same rows, and others go on from them."""
    queue = make()
    for n in range(20):
        queue.enqueue({"id": str(n)})
    queue.claim(5).ack()
    before = queue.status()

    done = queue.maintain()

    assert done.merged_files > 20
    assert queue.status().equals(before)
    assert [row["id"] for row in again().claim(2).rows] == ["5", "6"]


def test_finished_items_are_purged_with_their_history(make: Make, again: Again) -> None:
    """What waits stays; the counts of what ever was do, too."""
    queue = make(dedup_key="id")
    _put(queue, "abc")
    queue.claim(2).ack()

    assert queue.purge({"id": ["a", "c"]}, dry_run=True) == 1
    assert queue.purge({"id": ["a", "c"]}) == 1

    for one in (queue, again()):
        assert [row["id"] for row in one.status().to_pylist()] == ["b", "c"]
        assert one.history(1).num_rows == 0
    assert [row["id"] for row in again().claim(5).rows] == ["c"]


def test_what_finished_long_ago_is_dropped_by_generation(make: Make, clock: ManualClock) -> None:
    """A whole generation goes once all of it is over for as long as is asked for."""
    queue = make()
    _put(queue, "ab")
    queue.claim(1).ack()
    day = timedelta(days=1)
    clock.advance(day)
    assert queue.maintain(retention=day).dropped_items == 0
    _put(queue, "c")
    queue.claim(1).ack()
    clock.advance(day)

    done = queue.maintain(retention=day)

    assert (done.dropped_generations, done.dropped_items) == (1, 2)
    assert queue.status()["id"].to_pylist() == ["c"]
    assert [row["id"] for row in queue.claim(5).rows] == ["c"]


def test_of_checkpoints_the_newest_is_kept(make: Make, queue_path: str) -> None:
    """Rows of those before it are gone, and what they said of an open item is said anew."""
    queue = make()
    _put(queue, "abc")
    queue.claim(1)
    steps = []
    for _ in range(2):
        queue.claim(1).ack()
        steps.append(queue.maintain().checkpoint)

    rows = DeltaTable(f"{queue_path}/status").to_pyarrow_table(filters=[("_gen", "=", -3)])

    assert steps[0] < steps[1]
    assert set(zip(rows["_step"].to_pylist(), rows["_seq"].to_pylist(), strict=True)) == {
        (steps[1], 1)
    }
