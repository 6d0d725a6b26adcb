"""Load tests of requests and tasks; ``load.py`` runs them."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

from crowd import PATIENCE, require, require_order, together
from report import Figure
from spark_queue.inprocess import QueueBroker, SingularUpdateQueue, Turn
from spark_queue.memory.waiting.abort import AbortScope
from spark_queue.memory.waiting.timer import ManualTimer


def million(requests: int, producers: int) -> Iterator[Figure]:
    """Give each request the first gift that is free."""
    share = requests // producers
    free, given = deque(range(share * producers)), list[int]()

    def give(_: None) -> None:
        given.append(free.popleft())

    def produce(line: SingularUpdateQueue[None, None]) -> None:
        for _ in range(share):
            line.submit(None)

    started = time.monotonic()
    with SingularUpdateQueue(give, capacity=requests) as line:
        together([partial(produce, line)] * producers)
    took = time.monotonic() - started
    require(given == list(range(share * producers)), "a gift was lost, or given twice")
    yield Figure("million.rate", len(given) / took, None, "1/s", f"{len(given):,} requests")


class Groups:
    """Notes who runs: how many of each group at once, and in which order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside: set[int] = set()
        self.overlaps = 0
        self.order: dict[int, list[int]] = {}

    def task(self, group: int, number: int) -> Callable[[Turn], None]:
        """Make a task that goes in, lets others run, and comes out."""

        def work(_: Turn) -> None:
            with self._lock:
                self.overlaps += group in self._inside
                self._inside.add(group)
                self.order.setdefault(group, []).append(number)
            time.sleep(0)
            with self._lock:
                self._inside.discard(group)

        return work


def hot_group(tasks: int, groups: int, slots: int) -> Iterator[Figure]:
    """Hold one group up with all of its tasks in front; every other group runs meanwhile."""
    broker, seen, gate = QueueBroker(slots), Groups(), threading.Event()
    started = time.monotonic()
    broker.enqueue(lambda _: gate.wait(PATIENCE), -1)
    hot = [broker.enqueue(seen.task(-1, number), -1) for number in range(tasks)]
    others = [
        broker.enqueue(seen.task(number % groups, number), number % groups)
        for number in range(tasks)
    ]
    for future in others:
        future.result(PATIENCE)
    require(not any(future.done() for future in hot), "the hot group ran beside itself")
    gate.set()
    broker.wait_for_idle(PATIENCE)
    broker.stop()
    took = time.monotonic() - started
    require(all(future.done() for future in hot), "tasks of the hot group were lost")
    require(seen.overlaps == 0, f"{seen.overlaps} tasks overlapped within their group")
    for group, numbers in seen.order.items():
        require_order(f"tasks of group {group}", numbers)
    require(sum(map(len, seen.order.values())) == 2 * tasks, "tasks were lost, or ran twice")
    each_task = 1e6 * took / (2 * tasks)
    yield Figure("hot_group.task", each_task, None, "us", f"{groups:,} groups beside the hot one")


def slots(tasks: int, width: int) -> Iterator[Figure]:
    """End tasks in every way there is; all slots are free afterwards, and can all be used."""
    timer = ManualTimer()
    broker = QueueBroker(width, max_idle=1, timer=timer)
    waves = max(1, tasks // WAVE)
    started = time.monotonic()
    for number in range(waves):
        expires = bool(number % 2)
        outcomes = _wave(broker, width, timer if expires else None)
        require(outcomes == _expected(width, expires=expires), f"wave {number}: {outcomes}")
        broker.wait_for_idle(PATIENCE)
        counts = (broker.active_count, broker.waiting_count, broker.running_count)
        require(counts == (0, 0, 0), f"wave {number} leaves {counts} active, waiting, running")
    took = time.monotonic() - started
    _require_all_slots(broker, width)
    broker.stop()
    yield Figure("slots.task", 1e6 * took / (waves * WAVE), None, "us", f"{waves} waves of {WAVE}")


def _wave(broker: QueueBroker, width: int, timer: ManualTimer | None) -> Counter[str]:
    """Enqueue while all slots are taken, so that every task waits; count how they ended."""
    gate = threading.Event()
    futures = [broker.enqueue(lambda _: gate.wait(PATIENCE)) for _ in range(width)]
    futures += [_WAYS[number % len(_WAYS)](broker) for number in range(WAVE)]
    if timer is not None:
        timer.advance(1)
    gate.set()
    return Counter(_outcome(future) for future in futures)


def _expected(width: int, *, expires: bool) -> Counter[str]:
    part = WAVE // len(_WAYS)
    told = Counter(cancelled=part, AbortedError=part)
    if expires:
        return told + Counter(returned=width, TaskExpiredError=WAVE - 2 * part)
    return told + Counter(returned=width + WAVE - 3 * part, ValueError=part)


def _outcome(future: Future[Any]) -> str:
    if future.cancelled():
        return "cancelled"
    error = future.exception(PATIENCE)
    return "returned" if error is None else type(error).__name__


def _returns(broker: QueueBroker) -> Future[Any]:
    return broker.enqueue(lambda _: 1)


def _raises(broker: QueueBroker) -> Future[Any]:
    def task(_: Turn) -> None:
        raise ValueError

    return broker.enqueue(task, "fails")


def _releases(broker: QueueBroker) -> Future[Any]:
    return broker.enqueue(lambda turn: turn.release(), "releases")


def _is_grouped(broker: QueueBroker) -> Future[Any]:
    return broker.enqueue(lambda _: 1, "group")


def _is_cancelled(broker: QueueBroker) -> Future[Any]:
    future = broker.enqueue(lambda _: 1, "group")
    future.cancel()
    return future


def _is_aborted(broker: QueueBroker) -> Future[Any]:
    scope = AbortScope()
    future = broker.enqueue(lambda _: 1, "group", signal=scope.signal)
    scope.abort()
    return future


_WAYS = (_returns, _raises, _releases, _is_grouped, _is_cancelled, _is_aborted)

#: Tasks that are enqueued together: a multiple of the ways in which they end.
WAVE = 600


def _require_all_slots(broker: QueueBroker, width: int) -> None:
    """Require that as many tasks as there are slots can be inside at once."""
    meeting = threading.Barrier(width)
    futures = [broker.enqueue(lambda _: meeting.wait(10)) for _ in range(width)]
    outcomes = Counter(_outcome(future) for future in futures)
    require(outcomes == Counter(returned=width), f"not all {width} slots can be used: {outcomes}")
