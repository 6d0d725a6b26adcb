"""Reading without acks, and in scopes that ack by themselves."""

from __future__ import annotations

import queue as stdlib

import pytest

from spark_queue.errors import InvalidArgumentError
from tests.unit.journal.conftest import Queue, Reader
from tests.unit.journal.stage import Stage, put_all


def test_auto_commit(queue: Queue, reader: Reader) -> None:
    """What is got or polled is done at once (JB-01, JB-02)."""
    view = reader.auto_commit()
    put_all(queue, "first", "second", "third")
    assert (view.get(timeout=5), view.get()) == ("first", "second")
    assert (reader.items, reader.open_items) == (1, 0)
    assert view.poll() == "third"
    with pytest.raises(stdlib.Empty):
        view.poll()


def test_auto_commit_puts_durably(stage: Stage) -> None:
    """A put by the view returns when its item is durable."""
    journal = stage.journal()
    view = stage.queue(journal).reader().auto_commit()
    assert view.put("a") == 1
    assert journal.store.last_id == 1


def test_auto_commit_has_no_heads(stage: Stage) -> None:
    """What a journal cannot do is refused."""
    view = stage.queue().reader().auto_commit()
    with pytest.raises(InvalidArgumentError, match="put at the head"):
        view.put_head("a")
    with pytest.raises(InvalidArgumentError, match="poll_if"):
        view.poll_if(bool)


def test_transactions(queue: Queue, reader: Reader) -> None:
    """Two transactions are open; each ack takes one away (JB-03)."""
    put_all(queue, "first", "second", "third")
    one, two = reader.open_one(), reader.open_one(timeout=5)
    assert (one.begin(), two.begin()) == ("first", "second")
    assert (reader.items, reader.open_items) == (3, 2)
    assert one.ack()
    assert (reader.items, reader.open_items) == (2, 1)
    assert two.ack()
    assert (reader.items, reader.open_items) == (1, 0)


def test_a_nack_in_a_transaction(queue: Queue, reader: Reader) -> None:
    """What is nacked comes next (JB-04, JB-05, JB-06)."""
    put_all(queue, "first", "second", "third")
    one, two = reader.open_one(), reader.open_one()
    one.begin()
    two.begin()
    assert one.nack()
    assert two.ack()
    assert one.begin() == "first"
    with pytest.raises(InvalidArgumentError, match="open in this transaction"):
        one.begin()


def test_scopes(queue: Queue, reader: Reader) -> None:
    """A scope acks at its end, and nacks by an error; what was said earlier stays said."""
    put_all(queue, "first")

    def fail() -> None:
        with reader.open_one():
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        fail()
    assert (reader.items, reader.peek().errors) == (1, 1)
    scope = reader.open_one()
    with scope as item:
        assert item == "first"
        scope.nack()
    assert reader.items == 1
    with reader.open_one():
        pass
    assert reader.items == 0
    with pytest.raises(InvalidArgumentError, match="has ended"):
        scope.ack()


def test_a_scope_may_release(queue: Queue, reader: Reader) -> None:
    """What a scope releases is back at its place, uncharged."""
    put_all(queue, "first")
    scope = reader.open_one()
    with scope:
        assert scope.release()
    assert (reader.items, reader.open_items, reader.peek().errors) == (1, 0, 0)
