"""Keys that an operator pauses and resumes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_queue import Limit, QueueConfig
from spark_queue.acting import acting_as
from spark_queue.errors import CannotUndoError, InvalidArgumentError
from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import store_of
from spark_queue.sql.sql_planner import SqlPlanner
from spark_queue.testing import ManualClock, memory_queue


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that is moved by hand."""
    return ManualClock()


@pytest.fixture
def queue(clock: ManualClock) -> Any:
    """Return a queue of three items of two tenants."""
    made = memory_queue("tenant string", QueueConfig(fair_key="tenant"), clock=clock)
    made.enqueue([{"tenant": tenant} for tenant in "aab"])
    return made


def _pauses(queue: Any) -> tuple[Any, ...]:
    store = store_of(queue)
    return store.settings(store.status_head()).pauses


def test_explain_names_the_key_the_end_and_who_paused_it(queue: Any, clock: ManualClock) -> None:
    """With or without an end; and that an item expires before."""
    queue.enqueue([{"tenant": "a", "expires_at": clock.now() + timedelta(seconds=30)}])
    with acting_as("ann"):
        queue.pause(key="a", for_=timedelta(minutes=1))
    why = queue.explain(1)
    assert (why.reason, why.until) == ("key paused", clock.now() + timedelta(minutes=1))
    assert why.detail.startswith("tenant 'a' is paused until ")
    assert why.detail.endswith(" by ann")
    assert "it expires before the pause ends" in queue.explain(4).detail
    queue.pause(key="a")
    why = queue.explain(1)
    assert why.until is None
    assert "is paused until it is resumed" in why.detail


# rule: pause of a key
@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_an_item_waits_for_the_longer_pause_of_its_keys(
    tmp_path: Path, clock: ManualClock, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who finds nothing to work on hears of its end."""
    if engine == "sql":
        monkeypatch.setattr(SqlPlanner, "coming", SqlPlanner.coming_by_tables)
    config = QueueConfig(fair_key="tenant", limits=(Limit(by="host", default=None),))
    queue = LocalQueue.create(tmp_path / "queue", "tenant string, host string", config, clock=clock)
    queue.enqueue({"tenant": "a", "host": "x"})
    end = clock.now() + timedelta(seconds=30)
    queue.pause(key="x", by="host", for_=20)
    queue.pause(key="a", for_=30)

    done = queue.process(lambda _: None)

    assert (done.acked, done.stopped, done.until) == (0, "waiting", end)


def test_a_pause_that_changes_nothing_writes_nothing(queue: Any) -> None:
    """The step is the one that it is in force from."""
    first = queue.pause(key="a", for_=60)
    assert queue.pause(key="a", for_=30) == first
    assert queue.resume(key="b") == first
    assert queue.pause(key="a", for_=0) == first + 1
    assert queue.resume(key="a") == first + 1


def test_how_often_a_key_was_paused_is_remembered_for_as_long_again(
    queue: Any, clock: ManualClock
) -> None:
    """A quick repeat counts; a pause that ended long ago is dropped by the next write."""
    for _ in range(3):
        queue.pause(key="a", for_=10)
        clock.advance(timedelta(seconds=15))
    (pause,) = _pauses(queue)
    assert pause.times == 3
    clock.advance(timedelta(seconds=30))
    queue.pause(key="b", for_=10)
    assert [one.key for one in _pauses(queue)] == ["b"]


def test_an_undo_takes_back_a_pause_of_a_key_and_no_other(queue: Any) -> None:
    """One that was changed since stays."""
    first = queue.pause(key="a")
    queue.pause(key="b", for_=60)
    done = queue.undo(first)
    assert (done.what, dict(done.settings)) == ("pause", {"pause of 'a' by tenant": "not paused"})
    assert [one.key for one in _pauses(queue)] == ["b"]
    resumed = queue.resume(key="b")
    assert queue.undo(resumed).what == "resume"
    assert [one.key for one in _pauses(queue)] == ["b"]
    second = queue.pause(key="c", for_=5)
    queue.pause(key="c", for_=50)
    with pytest.raises(CannotUndoError, match="pause of 'c' by tenant was changed again"):
        queue.undo(second)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"for_": 60}, "for_ is 60: it is about a key"),
        ({"by": "tenant"}, "by is 'tenant': it is about a key"),
        ({"key": 7}, "key is 7: it must be a text"),
        ({"key": "a", "by": "upper(tenant)"}, "by is 'upper\\(tenant\\)': no such key is stored"),
        ({"key": "a", "for_": -1}, "for_ is -1 day"),
        ({"key": "a", "for_": "1m"}, "for_ is '1m': it must be a timedelta"),
    ],
)
def test_a_wrong_pause_says_what_is_right(queue: Any, given: dict[str, Any], why: str) -> None:
    """Nothing is written."""
    with pytest.raises(InvalidArgumentError, match=why):
        queue.pause(**given)
    assert _pauses(queue) == ()


def test_without_a_fair_key_the_only_key_is_meant() -> None:
    """Of several it has to be said."""
    config = QueueConfig(group_key="g")
    queue = memory_queue("g string, t string", config)
    queue.enqueue([{"g": "x", "t": "a"}])
    queue.pause(key="x")
    assert queue.claim(1).count == 0
    several = QueueConfig(group_key="g", limits=(Limit(by="t", default=1),))
    queue = memory_queue("g string, t string", several)
    with pytest.raises(InvalidArgumentError, match="the queue has 'g', 't'"):
        queue.pause(key="x")


def test_a_pause_is_there_for_another_process(tmp_path: Path) -> None:
    """It is a row of settings."""
    path = str(tmp_path / "q")
    queue = LocalQueue.create(path, "t string", QueueConfig(fair_key="t"), durability="process")
    queue.enqueue([{"t": "a"}, {"t": "b"}])
    queue.pause(key="a", for_=60)
    again = LocalQueue.open(path)
    assert [row["t"] for row in again.claim(5).rows] == ["b"]
    assert again.explain(1).reason == "key paused"
