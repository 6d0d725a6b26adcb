"""Verbs of single items: the same names, defaults and errors in memory and on two tables."""

from __future__ import annotations

import inspect
import queue
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from spark_queue.claim import Claim
from spark_queue.errors import InvalidArgumentError, LeaseLostError, QueueShutDownError
from spark_queue.front.durable import DurableQueue
from spark_queue.front.journaled import journaled_queue
from spark_queue.journal import (
    AutoCommitReader,
    JournaledQueue,
    JournalReader,
    MemoryJournal,
)
from spark_queue.local_queue import LocalQueue
from spark_queue.memory.blocking import BlockingQueue
from spark_queue.memory.fair.fair_queue import FairQueue

#: What hands out single items.
TAKERS = (DurableQueue, JournalReader, AutoCommitReader, BlockingQueue, FairQueue)

#: What takes them in, and may make who puts wait.
PUTTERS = (DurableQueue, JournaledQueue, AutoCommitReader, FairQueue)

#: What settles an item that is out.
SETTLERS = (DurableQueue, JournalReader, Claim)


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """A queue of single items, whatever keeps them."""

    put: Callable[..., Any]
    get: Callable[..., Any]
    close: Callable[[], Any]
    value: Callable[[Any], Any]


def _durable(place: str) -> Front:
    front = DurableQueue(LocalQueue.create(place, "data long", durability="process"))
    return Front(
        put=lambda value, **how: front.put({"data": value}, **how),
        get=front.get,
        close=front.close,
        value=lambda got: got.item["data"],
    )


def _journaled(place: str) -> Front:
    return _read(journaled_queue(LocalQueue.create(place, "data long", durability="process")))


def _in_memory(place: str) -> Front:
    del place
    return _read(JournaledQueue(MemoryJournal()))


def _read(opened: JournaledQueue[Any]) -> Front:
    return Front(
        put=opened.put,
        get=opened.reader().get,
        close=opened.close,
        value=lambda got: got.item,
    )


def _blocking(place: str) -> Front:
    del place
    made: BlockingQueue[Any] = BlockingQueue()
    return Front(put=made.put, get=made.get, close=made.close, value=lambda got: got)


def _fair(place: str) -> Front:
    del place
    made: FairQueue[Any] = FairQueue(lambda _: "")
    return Front(
        put=made.put,
        get=lambda timeout=None: made.get(timeout=timeout),
        close=lambda: made.shutdown(immediate=True),
        value=lambda got: got,
    )


@pytest.fixture(params=[_durable, _journaled, _in_memory, _blocking, _fair])
def front(request: pytest.FixtureRequest, place: str) -> Iterator[Front]:
    """Return a queue of each kind; it is closed in the end."""
    made: Front = request.param(f"{place}/queue")
    yield made
    made.close()


def _default(of: type, verb: str, name: str) -> object:
    return inspect.signature(getattr(of, verb)).parameters[name].default


def test_items_come_out_as_they_went_in(front: Front) -> None:
    """First in, first out, where there is one line."""
    for value in range(3):
        front.put(value)

    assert [front.value(front.get(timeout=60)) for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("timeout", [0, 0.01, timedelta(0), timedelta(milliseconds=10)])
def test_a_wait_in_vain_is_empty(front: Front, timeout: float | timedelta) -> None:
    """Whether it waited or not; seconds and durations mean the same."""
    with pytest.raises(queue.Empty):
        front.get(timeout=timeout)


@pytest.mark.parametrize("timeout", ["1", float("nan"), True])
def test_a_timeout_that_is_none_is_named(front: Front, timeout: object) -> None:
    """It is refused before anything is taken."""
    front.put(1)

    with pytest.raises(InvalidArgumentError, match="timeout"):
        front.get(timeout=timeout)
    assert front.value(front.get(timeout=60)) == 1


def test_what_is_closed_takes_and_gives_nothing(front: Front) -> None:
    """Both ends say so by the same error, and to close twice is to close once."""
    front.close()
    front.close()

    with pytest.raises(QueueShutDownError):
        front.put(1)
    with pytest.raises(QueueShutDownError):
        front.get(timeout=0)


@pytest.mark.parametrize("kind", TAKERS, ids=lambda kind: kind.__name__)
def test_a_get_waits_for_ever_unless_told_otherwise(kind: type) -> None:
    """Its timeout has one name and one default."""
    assert _default(kind, "get", "timeout") is None


@pytest.mark.parametrize("kind", PUTTERS, ids=lambda kind: kind.__name__)
def test_a_put_waits_for_room_unless_told_otherwise(kind: type) -> None:
    """Its timeout has one name and one default."""
    assert _default(kind, "put", "timeout") is None


@pytest.mark.parametrize("verb", ["nack", "dead"])
@pytest.mark.parametrize("kind", [DurableQueue, Claim], ids=lambda kind: kind.__name__)
def test_a_failure_has_a_reason(kind: type, verb: str) -> None:
    """It is named alike for a claim and for one of its items, and has to be said."""
    assert _default(kind, verb, "error") is inspect.Parameter.empty


@pytest.mark.parametrize("kind", SETTLERS, ids=lambda kind: kind.__name__)
def test_what_is_out_is_settled_by_the_same_verbs(kind: type) -> None:
    """Whatever holds it, an item is acked, nacked or released."""
    assert all(callable(getattr(kind, verb)) for verb in ("ack", "nack", "release"))


def test_what_is_settled_twice_is_told(place: str) -> None:
    """A claim and a front raise the same error; a journal, whose items have no lease, says no."""
    made = LocalQueue.create(f"{place}/leased", "data long", durability="process")
    made.enqueue({"data": 1})
    claim = made.claim()
    claim.ack()
    with pytest.raises(LeaseLostError):
        claim.settle_each({1: ("nack", "late")})
    with DurableQueue(made) as front:
        front.put({"data": 2})
        delivery = front.get(timeout=60)
        front.ack(delivery).result(60)
        with pytest.raises(LeaseLostError):
            front.nack(delivery, "late").result(60)
    with JournaledQueue[int](MemoryJournal()) as journal:
        journal.put(3)
        reader = journal.reader()
        read = reader.get()

        assert reader.ack(read)
        assert not reader.nack(read)
