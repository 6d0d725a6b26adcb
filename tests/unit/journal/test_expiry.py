"""Items that expire: when, for whom, and what their hook hears."""

from __future__ import annotations

from datetime import timedelta

import pytest

from spark_queue.journal import Entry, JournaledQueue, ReaderHooks
from spark_queue.reader_config import ReaderConfig
from tests.unit.journal.conftest import Queue, Reader
from tests.unit.journal.stage import Stage, drain, got, put_all, unread


def put_expiring(stage: Stage, queue: JournaledQueue[str], *items: str) -> None:
    """Put items that expire in a second, and let it pass."""
    for item in items:
        queue.put(item, expires_at=stage.after(1))
    stage.advance(1)


def test_an_expired_item_is_passed(stage: Stage, queue: Queue, reader: Reader) -> None:
    """The first of four has expired: a get finds the second (JQ-20, KC-14)."""
    queue.put("1", expires_at=stage.after(1))
    put_all(queue, "2", "3", "4")
    stage.advance(0.999)
    assert reader.peek().item == "1"
    stage.advance(0.001)
    assert got(reader.get_nowait) == "2"
    assert (reader.stats().expired, reader.items) == (1, 3)


def test_a_put_lets_expired_items_go(stage: Stage, queue: Queue) -> None:
    """The same after a put (JQ-21)."""
    queue.put("1", expires_at=stage.after(1))
    put_all(queue, "2")
    stage.advance(1)
    put_all(queue, "3")
    assert (queue.reader().stats().expired, queue.items) == (1, 2)


def test_the_hook_hears_of_an_item_that_expires_now(stage: Stage) -> None:
    """A deadline that is now has passed (JQ-22, decision 3)."""
    seen: list[Entry[str]] = []
    queue = stage.queue(hooks=ReaderHooks(on_expired=seen.append))
    put_expiring(stage, queue, "a")
    assert got(queue.reader().get_nowait) is None
    assert [entry.item for entry in seen] == ["a"]
    assert queue.items == 0


def test_a_sweep_has_its_limit(stage: Stage) -> None:
    """Three go at a time, in order (JQ-23)."""
    seen: list[str] = []
    queue = stage.queue(
        max_expire_sweep=3, hooks=ReaderHooks(on_expired=lambda entry: seen.append(entry.item))
    )
    put_expiring(stage, queue, *"0123456789")
    assert (queue.discard_expired(), queue.items, seen) == (3, 7, ["0", "1", "2"])
    assert (queue.discard_expired(), queue.items, seen[3:]) == (3, 4, ["3", "4", "5"])


def test_puts_and_gets_have_no_limit(stage: Stage) -> None:
    """A put and a get let everything go that has expired (JQ-24)."""
    queue = stage.queue(max_expire_sweep=3)
    put_expiring(stage, queue, *"0123456789")
    put_all(queue, "x")
    assert queue.items == 1
    queue.flush()
    put_expiring(stage, queue, *"0123456789")
    assert got(queue.reader().get_nowait) is None
    assert queue.items == 0


@pytest.mark.parametrize(("limit", "left"), [(3, 7), (None, 1)])
def test_nine_of_ten(stage: Stage, limit: int | None, left: int) -> None:
    """A sweep ends at its limit, or at the first item that lives (JQ-25, JQ-26, KP-45)."""
    queue = stage.queue(max_expire_sweep=limit)
    put_expiring(stage, queue, *"012345678")
    queue._state.totals.has_expiring = queue._state.alert = False
    put_all(queue, "9")
    assert queue.discard_expired() == 10 - left
    assert queue.items == left


def test_all_of_ten(stage: Stage, queue: Queue) -> None:
    """Without limit all ten go (JQ-27)."""
    put_expiring(stage, queue, *"0123456789")
    assert (queue.discard_expired(), queue.items) == (10, 0)


def test_each_reader_expires(stage: Stage) -> None:
    """Every reader lets go by itself, up to the limit (JQ-28)."""
    queue = stage.queue(max_expire_sweep=3)
    readers = [queue.reader(name) for name in "abc"]
    put_expiring(stage, queue, *"0123456789")
    assert queue.discard_expired() == 9
    assert [reader.items for reader in readers] == [7, 7, 7]


def test_items_expire_by_age(stage: Stage) -> None:
    """What is as old as the reader allows has expired (JQ-29, KP-24)."""
    queue = stage.queue(max_age=timedelta(seconds=3))
    put_all(queue, "a")
    stage.advance(2)
    assert queue.reader().peek().item == "a"
    stage.advance(1)
    assert got(queue.reader().get_nowait) is None


def test_a_lower_age_holds_for_what_is_there(stage: Stage) -> None:
    """Lowering the age lets old items go (KP-24)."""
    queue = stage.queue(max_age=timedelta(seconds=60))
    put_all(queue, "a")
    stage.advance(2)
    queue.reader(config=ReaderConfig(max_age=timedelta(seconds=1)))
    assert got(queue.reader().get_nowait) is None


def test_the_earlier_deadline_counts(stage: Stage) -> None:
    """An item expires by itself or by its age, whichever is first."""
    queue = stage.queue(max_age=timedelta(seconds=2))
    queue.put("late", expires_at=stage.after(5))
    queue.put("early", expires_at=stage.after(1))
    stage.advance(2)
    assert queue.discard_expired() == 2


def test_sweep_then_get(stage: Stage) -> None:
    """Three of four expired items are swept, the get discards the fourth (KP-47)."""
    queue = stage.queue(max_expire_sweep=3)
    put_expiring(stage, queue, *"0123")
    queue._state.totals.has_expiring = queue._state.alert = False
    put_all(queue, "live")
    queue._state.totals.has_expiring = True
    assert queue.discard_expired() == 3
    assert got(queue.reader().get_nowait) == "live"
    assert queue.reader().stats().expired == 4


def test_a_live_item_that_came_back_stops_no_sweep(stage: Stage) -> None:
    """What expired behind it goes; between two expired ones a live one stops it (LB-22)."""
    queue = stage.queue()
    reader = queue.reader()
    put_all(queue, "live")
    queue.put("expired", expires_at=stage.after(1))
    put_all(queue, "between")
    queue.put("expired too", expires_at=stage.after(1))
    reader.nack(reader.get())
    stage.advance(1)
    assert queue.discard_expired() == 1
    assert unread(reader)[:2] == ["live", "between"]


def test_what_came_back_expires_too(stage: Stage, queue: Queue, reader: Reader) -> None:
    """An item that came back after its deadline goes, an open one stays."""
    queue.put("a", expires_at=stage.after(1))
    read = reader.get()
    stage.advance(2)
    assert queue.discard_expired() == 0
    reader.nack(read)
    assert queue.discard_expired() == 1
    assert queue.items == 0


def test_a_hook_that_fails_keeps_the_item(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """The item is not delivered, and the next sweep tries again (LB-21, LB-13)."""
    failures = [RuntimeError("hook")]

    def on_expired(_: Entry[str]) -> None:
        if failures:
            raise failures.pop()

    queue = stage.queue(hooks=ReaderHooks(on_expired=on_expired))
    reader = queue.reader()
    put_expiring(stage, queue, "a")
    put_all(queue, "b")
    assert "its hook failed" in caplog.text
    assert (reader.items, reader.stats().expired) == (2, 0)
    assert drain(reader) == ["b"]
    assert (queue.discard_expired(), queue.items) == (1, 0)


def test_a_hook_that_fails_keeps_the_item_over_a_restart(stage: Stage) -> None:
    """What did not expire with its hook is there again after a crash (LB-13)."""

    def on_expired(_: Entry[str]) -> None:
        raise RuntimeError("hook")

    journal = stage.journal()
    queue = stage.queue(journal, hooks=ReaderHooks(on_expired=on_expired))
    put_expiring(stage, queue, "a")
    assert queue.discard_expired() == 0
    queue.sync()
    queue = stage.again(journal)
    assert (queue.items, queue.discard_expired()) == (1, 1)


def test_the_hook_may_use_the_queue(stage: Stage) -> None:
    """A hook runs without the lock: it may put (own)."""
    queue: JournaledQueue[str] = stage.queue(
        hooks=ReaderHooks(on_expired=lambda entry: queue.put(entry.item + "!"))
    )
    put_expiring(stage, queue, "a", "b")
    assert queue.discard_expired() == 2
    assert drain(queue.reader()) == ["a!", "b!"]


def test_an_interrupted_hook_gives_the_read_back(stage: Stage) -> None:
    """A get that is interrupted in a hook has taken nothing."""

    def interrupt(_: Entry[str]) -> None:
        raise KeyboardInterrupt

    queue = stage.queue()
    reader = queue.reader()
    queue.put("expired", expires_at=stage.after(1))
    put_all(queue, "b")
    queue.reader(hooks=ReaderHooks(on_expired=interrupt))
    stage.advance(1)
    with pytest.raises(KeyboardInterrupt):
        reader.get(timeout=0)
    assert reader.open_items == 0
    assert reader.get(timeout=0).item == "b"
