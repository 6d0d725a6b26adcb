"""Who waits for items is woken by what others write, and costs next to nothing until then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_queue import Limit, Waited
from spark_queue.claim import LocalClaim
from spark_queue.clock import ManualClock
from spark_queue.commands import wait_for_end
from spark_queue.errors import InvalidArgumentError
from spark_queue.front.durable import DurableQueue, FrontOptions
from spark_queue.local_queue import LocalQueue
from spark_queue.log.disk.first_waiter import FirstWaiter
from spark_queue.retry_policy import RetryPolicy
from spark_queue.state import step_waits
from tests.unit.local.conftest import Make, Worker

LONG = timedelta(seconds=60)
HOUR = timedelta(hours=1)
ONE = Limit(by="tenant", default=1)

#: Takes the next item in another process, and says what it is and when it had it.
_TAKE = "(queue.claim(wait=__import__('datetime').timedelta(seconds=60)).rows[0]['id'])"

#: The seconds of processor time that another process needs to wait for a second.
_IDLE = (
    "(lambda t, d: (t.process_time(), queue.claim(wait=d.timedelta(seconds=1)).count,"
    " t.process_time()))(__import__('time'), __import__('datetime'))"
)


def test_who_waits_in_another_process_gets_what_is_put(
    make: Make, start: Callable[..., Worker]
) -> None:
    """It has the item long before it would have given up, whatever it did meanwhile."""
    queue, worker = make(), start()
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(worker.says, _TAKE)
        time.sleep(0.1)
        assert not taken.done()
        queue.enqueue({"id": "a"})

        assert taken.result(LONG.total_seconds() / 2) == "a"


def test_to_wait_takes_next_to_no_time_of_a_processor(
    make: Make, start: Callable[..., Worker]
) -> None:
    """A second of waiting is less than a tenth of one at work."""
    make()
    worker = start()
    worker.says(_IDLE)

    before, count, after = eval(worker.says(_IDLE))  # noqa: S307 - our own numbers

    assert count == 0
    assert after - before < 0.1


def test_a_claim_that_does_not_wait_looks_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is nothing it comes back with nothing, and asks no second time."""
    queue = make()
    monkeypatch.setattr(step_waits, "_wait", lambda *_: pytest.fail("it waits"))

    assert queue.claim().count == 0


def test_a_claim_waits_no_longer_than_it_may(make: Make) -> None:
    """When its time is up it has nothing, and a time below nothing is none."""
    queue = make()

    assert queue.claim(wait=timedelta(milliseconds=30)).count == 0
    with pytest.raises(InvalidArgumentError, match="wait is"):
        queue.claim(wait=timedelta(seconds=-1))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Note how long is waited, on no clock at all."""
    noted: list[float] = []
    monkeypatch.setattr(step_waits, "_wait", lambda _, seconds, __: noted.append(seconds))
    return noted


def test_a_claim_waits_for_the_next_item_that_becomes_due(
    make: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retry, a delay and the end of a lease each wake it at their time, the first one first."""
    queue = make(retry=RetryPolicy(delay=timedelta(milliseconds=500)))
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    queue.claim(1).nack("not now")
    queue.claim(1, lease=timedelta(milliseconds=200))
    waited: list[float] = []

    def passed(_: object, seconds: float, __: object) -> None:
        waited.append(seconds)
        clock.advance(timedelta(seconds=seconds))

    monkeypatch.setattr(step_waits, "_wait", passed)

    assert [row["id"] for row in queue.claim(wait=LONG).rows] == ["b"]
    assert [row["id"] for row in queue.claim(wait=LONG).rows] == ["a"]
    assert waited == [pytest.approx(0.2), pytest.approx(0.3)]


def test_what_becomes_due_while_a_claim_gets_nothing_is_not_waited_for(
    make: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rules are asked as of the wait, by which more may start than at the claim before."""
    queue = make(retry=RetryPolicy(delay=timedelta(milliseconds=500)))
    queue.enqueue({"id": "a"})
    queue.claim(1).nack("not now")
    monkeypatch.setattr(step_waits, "_wait", lambda *_: pytest.fail("it waits"))

    def attempt() -> LocalClaim:
        got = queue.claim(1)
        clock.advance(timedelta(milliseconds=500))
        return got

    assert step_waits.poll(queue._store, attempt, LONG).count == 1


def test_a_look_is_outdated_by_steps_of_either_log(
    make: Make, again: Callable[[], LocalQueue]
) -> None:
    """What is put wakes, and what is settled, paused or configured, too; what was seen does not."""
    queue, other = make(), again()

    def outdates(step: Callable[[], object]) -> bool:
        look = step_waits.look_at(queue._store)
        assert not look.is_outdated()
        step()
        return look.is_outdated()

    assert outdates(lambda: other.enqueue({"id": "a"}))
    assert outdates(other.claim)
    assert outdates(other.pause)
    assert not outdates(other.counts)


def test_the_queue_is_looked_at_after_a_second_anyhow(make: Make, waits: list[float]) -> None:
    """That a process has ended writes nothing: it is found by who looks."""
    queue = make()
    queue.claim(wait=timedelta(milliseconds=1))
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(queue.claim, wait=LONG)
        while not waits:
            time.sleep(0.001)
        queue.enqueue({"id": "a"})
        taken.result()

    assert max(waits) == pytest.approx(1, abs=0.1)


def test_a_front_is_woken_by_another_process(make: Make, start: Callable[..., Worker]) -> None:
    """Who takes single items waits for those of others as for those of this process."""
    queue, worker = make(), start()
    seldom = FrontOptions(poll_every=HOUR)
    with DurableQueue(queue, options=seldom) as front, ThreadPoolExecutor(1) as pool:
        taken = pool.submit(front.get, LONG)
        while not front._consumer._takers:
            time.sleep(0.001)
        assert worker.says("queue.enqueue({'id': 'a'}).inserted") == "1"

        assert taken.result().item == {"id": "a"}


def test_a_front_that_only_puts_leaves_all_to_others(
    make: Make, start: Callable[..., Worker]
) -> None:
    """Another process claims every item, and the front takes one when it is asked to."""
    queue, worker = make(), start()
    with DurableQueue(queue) as front:
        for n in range(50):
            front.put({"id": str(n)})
        front.sync()

        assert worker.says("queue.claim(50).count") == "50"
        front.put({"id": "last"}).result()
        assert front.get(LONG).item == {"id": "last"}


#: Steps of others, after which one who waits for items of a full key, "a", claims, or does not.
_STEPS: dict[str, tuple[Callable[[LocalQueue, LocalClaim], object], bool]] = {
    "an enqueue": (lambda q, _: _put(q, "b"), True),
    "a resume": (lambda q, _: _put(q, "p").resume(key="p"), True),
    "a changed limit": (lambda q, _: q.configure(limits=(Limit(by="tenant", default=2),)), True),
    "an ack of the full key": (lambda _, held: held.ack(), True),
    "a release": (lambda _, held: held.release(), True),
    "what another has taken at once": (lambda q, _: _put(q, "b").claim(1), False),
    "what another has done at once": (lambda q, _: _put(q, "b").claim(1).ack(), False),
    "a renewal": (lambda _, held: held.renew(LONG), False),
    "an item of the full key": (lambda q, _: _put(q, "a"), False),
    "a paused item": (lambda q, _: _put(q, "p"), False),
}


def _put(queue: LocalQueue, tenant: str) -> LocalQueue:
    queue.enqueue({"id": tenant, "tenant": tenant})
    return queue


@pytest.mark.parametrize("name", _STEPS)
def test_who_waits_is_woken_by_what_gives_it_an_item(
    make: Make, again: Callable[[], LocalQueue], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """R9: a claim of others, and all that leaves the key full, costs no attempt."""
    queue, other = make("id string, tenant string", fair_key="tenant", limits=(ONE,)), again()
    other.pause(key="p")
    _put(other, "a")
    _put(other, "a")
    held = other.claim(1)
    step, wakes = _STEPS[name]
    steps: Iterator[Callable[[], object]] = iter(
        [lambda: step(other, held), lambda: _put(other, "end")]
    )
    attempts: list[LocalClaim] = []

    def attempt() -> LocalClaim:
        attempts.append(queue.claim(1))
        return attempts[-1]

    monkeypatch.setattr(step_waits, "_wait", lambda *_: next(steps)())
    got = step_waits.poll(queue._store, attempt, LONG)

    assert got.count == 1
    assert len(attempts) == 2
    assert (got.rows[0]["id"] != "end") == wakes


def test_of_several_who_wait_one_looks(tmp_path: Path) -> None:
    """Who worked last is the next; one that leaves something calls, one in silence is passed by."""
    now = [100.0]
    first, second, third = (FirstWaiter(tmp_path, lambda: now[0]) for _ in range(3))

    def passes(seconds: float) -> None:
        now[0] += seconds

    assert first.take()
    assert not second.take()
    passes(10)
    assert first.take()
    first.leave()
    passes(0.05)
    assert not second.take()
    assert first.take()
    first.leave(calls_next=True)
    assert second.take()
    assert not third.take()
    passes(1.1)
    assert third.take()
    assert not third.is_first


def test_who_stands_behind_looks_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one lives, but claims nothing: what it may not claim another one may."""
    monkeypatch.setattr(step_waits, "_BEHIND", 0.1)
    queue = LocalQueue.create(tmp_path / "q", "id string", durability="process")
    first, is_over = FirstWaiter(tmp_path / "q" / "status"), threading.Event()

    def live() -> None:
        while first.take() and not is_over.wait(step_waits.TICK):
            pass

    with ThreadPoolExecutor(2) as pool:
        lives = pool.submit(live)
        taken = pool.submit(queue.claim, wait=LONG)
        time.sleep(0.05)
        LocalQueue.open(tmp_path / "q").enqueue({"id": "a"})
        try:
            assert taken.result(LONG.total_seconds() / 2).count == 1
            assert not lives.done()
        finally:
            is_over.set()


def test_where_there_is_no_line_everybody_looks(tmp_path: Path) -> None:
    """On no disk, at a queue that is gone, and past a sign of another start of this machine."""
    first = FirstWaiter(tmp_path, lambda: 9e9)
    assert first.take()

    assert FirstWaiter(None).take()
    assert FirstWaiter(tmp_path / "gone").take()
    assert FirstWaiter(tmp_path, lambda: 1.0).take()
    assert first.is_first


def test_a_wait_ends_when_the_last_of_its_items_has(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread that ends it wakes it, long before it would look again by itself."""
    queue, has_looked = make(), threading.Event()
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    claim = queue.claim(2)
    rest = step_waits.rest_until_news

    def begin_to_rest(*given: Any) -> None:
        has_looked.set()
        rest(*given)

    monkeypatch.setattr(wait_for_end, "rest_until_news", begin_to_rest)
    monkeypatch.setattr(step_waits, "_BEHIND", 1_000)
    with ThreadPoolExecutor(1) as pool:
        waited = pool.submit(queue.wait, "true", LONG)
        assert has_looked.wait(LONG.total_seconds())
        claim.ack()

        assert waited.result(LONG.total_seconds() / 2) == Waited({"acked": 2})
