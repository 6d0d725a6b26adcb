"""Puts of a front that replace others of their key, or raise where it is taken."""

from __future__ import annotations

import pytest

from spark_queue.errors import DuplicateItemError, InvalidArgumentError
from spark_queue.front.durable import DurableQueue
from tests.unit.local.conftest import Make


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
