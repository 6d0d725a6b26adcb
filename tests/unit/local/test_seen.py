"""What is seen of a queue without Spark, and what an operator does to it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from spark_queue.clock import ManualClock
from spark_queue.errors import InvalidArgumentError, InvalidConfigError
from spark_queue.flow import Limit, Rate
from spark_queue.local_queue import LocalQueue
from spark_queue.views import explaining
from tests.unit.local.conftest import Make

MINUTE = timedelta(minutes=1)


@pytest.fixture
def everywhere(make: Make, clock: ManualClock) -> LocalQueue:
    """Return a queue with an item in each state that there is without Spark, and a duplicate."""
    queue = make("id string", dedup_key="id", group_key="substring(id, 1, 1)", lease=MINUTE)
    queue.enqueue({"id": "x", "expires_at": clock.now() + timedelta(seconds=1)})
    queue.enqueue([{"id": name} for name in ("a", "b", "c1", "c2", "a")])
    queue.enqueue({"id": "late", "available_at": clock.now() + 10 * MINUTE})
    clock.advance(timedelta(seconds=1))
    queue.claim(3).settle_each({2: "ack", 3: ("dead", "bad")})
    return queue


def test_items_are_counted_by_their_state(everywhere: LocalQueue) -> None:
    """Every item is counted once, and so are rows that were refused."""
    assert everywhere.counts() == {
        "ready": 2,
        "claimed": 1,
        "acked": 1,
        "dead": 1,
        "expired": 1,
        "cancelled": 0,
        "refused": 1,
    }


def test_the_status_shows_every_item(everywhere: LocalQueue) -> None:
    """One row an item, in the order of their seqs; one that was never claimed has no failure."""
    rows = everywhere.status().to_pylist()

    assert [(row["_seq"], row["id"], row["_state"]) for row in rows] == [
        (1, "x", "expired"),
        (2, "a", "acked"),
        (3, "b", "dead"),
        (4, "c1", "claimed"),
        (5, "c2", "ready"),
        (7, "late", "ready"),
    ]
    assert (rows[4]["_dedup_key"], rows[4]["_group_key"]) == ("c2", "c")
    assert {(row["_attempts"], row["_losses"]) for row in rows} == {(0, 0)}
    assert [row["_finished_at"] is not None for row in rows] == [True] * 3 + [False] * 3
    assert [row["_lease"] for row in rows] == [None, None, None, 2, None, None]
    assert [row["id"] for row in everywhere.dead().to_pylist()] == ["b"]


def test_the_history_of_an_item_is_told(everywhere: LocalQueue) -> None:
    """From its enqueue on, oldest first; of a refused row that it was refused, and for whom."""
    moves = everywhere.history(3).select(["log", "_state", "_error"]).to_pylist()

    assert [tuple(move.values()) for move in moves] == [
        ("queue", "ready", None),
        ("status", "claimed", None),
        ("status", "dead", "bad"),
    ]
    assert everywhere.history(5)["_state"].to_pylist() == ["ready"]
    assert everywhere.history(6)["_duplicate_of"].to_pylist() == [2]
    assert everywhere.history(99).num_rows == 0
    with pytest.raises(InvalidArgumentError):
        everywhere.history("3")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seq", "reason", "by"),
    [
        (1, "finished", None),
        (3, "finished", None),
        (4, "leased", None),
        (5, "held by group", 4),
        (6, "duplicate", 2),
        (7, "delayed", None),
        (99, "unknown", None),
    ],
)
def test_it_is_said_why_an_item_is_not_running(
    everywhere: LocalQueue, seq: int, reason: str, by: int | None
) -> None:
    """Whatever became of a row, there is an answer."""
    why = everywhere.explain(seq)

    assert (why.seq, why.reason, why.by) == (seq, reason, by)


def test_what_ended_is_said_with_its_error(everywhere: LocalQueue) -> None:
    """A dead letter says of what it died, and when."""
    assert everywhere.explain(3).detail == "dead at 2026-01-01 00:00:01Z: bad"


def test_a_paused_queue_gives_nothing(make: Make, again: Callable[[], LocalQueue]) -> None:
    """Every handle sees the pause, until somebody resumes."""
    queue, other = make(), again()
    queue.enqueue({"id": "a"})

    queue.pause()
    assert (other.paused, other.claim().count) == (True, 0)
    assert other.explain(1).reason == "paused"
    other.resume()

    assert (queue.paused, queue.claim().count) == (False, 1)


def test_settings_change_for_every_handle(
    make: Make, again: Callable[[], LocalQueue], clock: ManualClock
) -> None:
    """A claim after the change is by the new settings."""
    queue, other = make(), again()
    queue.enqueue([{"id": "a"}, {"id": "b"}])

    queue.configure(lease=MINUTE, max_in_flight=1)

    claim = other.claim(2)
    assert (claim.count, claim.lease_expires_at) == (1, clock.now() + MINUTE)
    assert other.config.max_in_flight == 1


def test_a_setting_that_is_none_is_refused(make: Make) -> None:
    """An unknown name, and one that is fixed when the queue is made."""
    queue = make()

    for wrong in ({"colour": 1}, {"dedup_key": "id"}, {"max_in_flight": 0}):
        with pytest.raises(InvalidConfigError):
            queue.configure(**wrong)


def test_each_reader_has_its_own_position(make: Make, again: Callable[[], LocalQueue]) -> None:
    """Two readers both get every item, in their own time."""
    queue = make()
    queue.enqueue({"id": "before"})
    first = queue.reader("first", start="beginning")
    second = again().reader("second", start="tail")
    queue.enqueue([{"id": "a"}, {"id": "b"}])

    with first.claim(2) as claim:
        assert [row["id"] for row in claim.rows] == ["before", "a"]

    assert first.counts()["acked"] == 2
    assert second.counts() == {**first.counts(), "acked": 0, "ready": 2}
    assert [row["id"] for row in second.claim(9).rows] == ["a", "b"]
    assert set(queue.readers()) == {"first", "second"}
    assert second.explain(1).reason == "unknown"
    assert [row["id"] for row in second.status().to_pylist()] == ["a", "b"]


def test_the_first_reader_with_a_name_takes_over(make: Make) -> None:
    """It has what the one without a name has had, and is what is seen without a name."""
    queue = make()
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    held = queue.claim(1)

    named = queue.reader("mine")

    held.ack()
    assert named.counts()["acked"] == 1
    assert [row["id"] for row in queue.claim(9).rows] == ["b"]


def test_a_handle_names_its_queue(make: Make, queue_path: str) -> None:
    """It shows its path."""
    assert repr(make()) == f"LocalQueue({queue_path!r})"


@pytest.mark.parametrize("who", ["this process", "the logs"])
def test_all_that_holds_up_an_item_is_counted(
    make: Make, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a paused queue also a key without room, one without units, and a full queue."""
    if who == "the logs":
        monkeypatch.setattr(explaining, "live", lambda *_: None)
    limits = (Limit(by="tenant", default=1),)
    rates = (Rate(by="tenant", limit=1, per=timedelta(hours=1)),)
    bounds = {"max_in_flight": 1, "limits": limits, "rates": rates}
    queue = make("id string, tenant string", fair_key="tenant", **bounds)
    queue.enqueue([{"id": name, "tenant": "a"} for name in "xy"])
    queue.claim(1)
    queue.pause()

    told = queue.explain(2)

    assert (told.reason, told.more) == ("paused", 3)
