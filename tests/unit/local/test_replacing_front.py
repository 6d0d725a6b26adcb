"""Puts of a front that replace others of their key, or raise where it is taken."""

from __future__ import annotations

from datetime import timedelta

import pytest

from spark_queue.clock import ManualClock
from spark_queue.errors import DuplicateItemError, InvalidArgumentError
from spark_queue.front.durable import DurableQueue
from spark_queue.sql.sql_planner import SqlPlanner
from tests.unit.local.conftest import Make

SECOND = timedelta(seconds=1)


def test_each_put_says_what_becomes_of_it_where_its_key_is_taken(make: Make) -> None:
    """By default as the queue is configured; a duplicate that raises fails no other put."""
    queue = make(dedup_key="id", on_duplicate="replace")
    with DurableQueue(queue) as front:
        first = front.put({"id": "a"}).result()
        second = front.put({"id": "a"}).result()
        assert (first.outcome, second.outcome) == ("inserted", "replaces")
        assert second.duplicate_of == first.seq
        third = front.put({"id": "a"}, on_duplicate="skip").result()
        assert (third.outcome, third.holder) == ("duplicate", "waits")
        front.get(timeout=0)
        fourth = front.put({"id": "a"}, on_duplicate="skip").result()
        assert (fourth.duplicate_of, fourth.holder) == (second.seq, "busy")
        puts = [front.put({"id": name}, on_duplicate="raise") for name in ("b", "a", "c")]
        assert [puts[0].result().outcome, puts[2].result().outcome] == ["inserted", "inserted"]
        with pytest.raises(DuplicateItemError, match="seq 2, which has begun"):
            puts[1].result()
        with pytest.raises(InvalidArgumentError, match="on_duplicate is 'maybe'"):
            front.put({"id": "d"}, on_duplicate="maybe")  # type: ignore[arg-type]


# rule again: next event
@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_what_follows_an_item_that_has_begun_waits_for_no_time(
    make: Make, clock: ManualClock, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K3: until its holder is over no delay lets it run; that is said apart."""
    if engine == "sql":
        monkeypatch.setattr(SqlPlanner, "coming", SqlPlanner.coming_by_tables)
    queue = make(dedup_key="id", on_duplicate="replace", debounce=SECOND, at_most=9 * SECOND)
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    clock.advance(SECOND)
    held = queue.claim(1)
    queue.enqueue([{"id": "a"}])
    clock.advance(SECOND / 2)
    queue.enqueue([{"id": "c"}])
    done = queue.process(print, limit=1)
    assert (done.acked, dict(done.waiting)) == (1, {"leased": 1, "delayed": 1, "follows": 1})
    assert done.until == clock.now() + SECOND
    queue.cancel("id = 'c'")
    assert queue.process(print).until == held.lease_expires_at
