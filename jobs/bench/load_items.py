"""Load tests of queues of items; ``load.py`` runs them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from threading import Barrier
from typing import Any

from crowd import (
    PATIENCE,
    by_source,
    each,
    require,
    require_once,
    require_order,
    together,
    until_closed,
)
from report import Figure
from spark_queue.config import QueueConfig
from spark_queue.inprocess import BlockingQueue, DistinctQueue, FairQueue
from spark_queue.rules.rule_model import Ack, NewItem
from spark_queue.rules.scheduler import Scheduler

#: Who put an item, and the how-manieth of theirs it is.
Tagged = tuple[int, int]


def flood(
    writers: int, readers: int, span: float, limit: int, poll_share: float
) -> Iterator[Figure]:
    """Write and read as fast as possible."""
    line: BlockingQueue[Tagged] = BlockingQueue(limit, "drop_oldest")
    written = [0] * writers
    read: list[list[Tagged]] = [[] for _ in range(readers)]
    end = time.monotonic() + span
    last = Barrier(writers, action=line.close)

    def write(me: int) -> None:
        while time.monotonic() < end:
            if line.size() > limit // 2:
                time.sleep(0.005)
            line.put((me, written[me]))
            written[me] += 1
        last.wait()

    def take(me: int) -> None:
        until_closed(_poll_or_get(line, random.Random(me), poll_share), read[me])  # noqa: S311

    took = together([*each(writers, write), *each(readers, take)], span + PATIENCE)
    require(line.dropped == 0, f"{line.dropped} items were dropped")
    wanted = [(me, number) for me in range(writers) for number in range(written[me])]
    require_once("items", [item for mine in read for item in mine], wanted)
    for mine in read:
        _require_order_of_each_source(mine)
    yield Figure("flood.read", 1e9 * took * readers / len(wanted), None, "ns", "a read of a reader")
    yield Figure("flood.rate", len(wanted) / took, None, "1/s", f"{len(wanted):,} items")


def _poll_or_get(
    line: BlockingQueue[Any], chance: random.Random, poll_share: float
) -> Callable[[], Any]:
    def take() -> Any:
        return line.poll() if chance.random() < poll_share else line.get(timeout=0.001)

    return take


def _require_order_of_each_source(taken: list[Tagged]) -> None:
    for source, numbers in by_source(taken).items():
        require_order(f"items of thread {source}", numbers)


def put(threads: int, puts: int, cycles: int, limit: int) -> Iterator[Figure]:
    """Overfill a queue that drops the oldest."""
    took = sum(_overfilled(threads, puts, limit) for _ in range(cycles))
    each_put = 1e9 * took / (cycles * threads * puts)
    yield Figure("put.put", each_put, None, "ns", f"{cycles} x {threads} threads x {puts:,} puts")


def _overfilled(threads: int, puts: int, limit: int) -> float:
    line: BlockingQueue[Tagged] = BlockingQueue(limit, "drop_oldest")

    def fill(me: int) -> None:
        for number in range(puts):
            line.put((me, number))

    took = together(each(threads, fill))
    left = [line.poll() for _ in range(line.size())]
    require(len(left) == min(limit, threads * puts), f"{len(left)} items are left")
    require(line.dropped == threads * puts - len(left), f"{line.dropped} were dropped")
    for source, numbers in by_source(left).items():
        tail = list(range(puts - len(numbers), puts))
        require(numbers == tail, f"what is left of thread {source} is not the end of its items")
    return took


def timeout(items: int, interval: float, readers: int) -> Iterator[Figure]:
    """Let many readers give up again and again."""
    line: BlockingQueue[int] = BlockingQueue()
    received: list[int] = []
    misses = [0] * readers

    def write() -> None:
        for number in range(items):
            time.sleep(interval)
            line.put(number)
        line.close()

    def take(me: int) -> None:
        chance = random.Random(me)  # noqa: S311 - it has to be repeatable, not secret

        def get() -> int:
            return line.get(timeout=chance.uniform(0.5, 1.5) * interval)

        misses[me] = until_closed(get, received)

    took = together([write, *each(readers, take)], items * interval + PATIENCE)
    require_once("items", received, range(items))
    require(line.waiter_count == 0, f"{line.waiter_count} still wait")
    yield Figure("timeout.items", len(received), None, "items", f"in {took:.1f} s")
    yield Figure("timeout.misses", sum(misses), None, "waits", "that ended with nothing")


def many_clients(
    items: int, interval: float, consumers: int, wait: float, kill_rate: float
) -> Iterator[Figure]:
    """Let many consumers wait for few items, some of which give up."""
    line: BlockingQueue[int] = BlockingQueue()
    received: list[Any] = []
    killed = [0] * consumers

    def write() -> None:
        for number in range(items):
            time.sleep(interval)
            line.put(number)
        while sum(item is not None for item in received) < items:
            time.sleep(interval)
        line.close()

    def consume(me: int) -> None:
        chance = random.Random(me)  # noqa: S311 - it has to be repeatable, not secret

        def get() -> int | None:
            future = line.get_future(wait)
            if chance.random() >= kill_rate:
                return future.result()
            _give_up(line, future, interval)
            killed[me] += 1
            return None

        until_closed(get, received)

    took = together([write, *each(consumers, consume)], items * interval + PATIENCE)
    require_once("items", [item for item in received if item is not None], range(items))
    require(line.waiter_count == 0, f"{line.waiter_count} still wait")
    yield Figure("many_clients.items", items, None, "items", f"in {took:.1f} s")
    yield Figure("many_clients.killed", sum(killed), None, "waits", "that were given up")


def _give_up(line: BlockingQueue[int], future: Future[int], interval: float) -> None:
    """Leave while an item may be on its way."""
    time.sleep(interval)
    line.withdraw(future)


def leaky_reader(items: int, leak: float, lease: float) -> Iterator[Figure]:
    """Let a reader forget some of what it claims; the time is the test's own."""
    chance = random.Random(items)  # noqa: S311 - it has to be repeatable, not secret
    rules = Scheduler(QueueConfig(max_losses=None))
    rules.admit([NewItem(payload=number) for number in range(items)], 0.0)
    done: list[Any] = []
    now, leaked, started = 0.0, 0, time.monotonic()
    while len(done) < items:
        require(now < items * (lease + 1), "items do not come back")
        grant = rules.claim(now, 1, lease=lease)
        for item in grant.items:
            if chance.random() < leak:
                leaked += 1
                continue
            require(not rules.settle(grant.lease, {item.seq: Ack()}, now).lost, "a lease was lost")
            done.append(item.payload)
        now += 0.001 if grant.items else lease
    require_once("items", done, range(items))
    require(rules.counts()["acked"] == items, "the counts disagree")
    each_item = 1e6 * (time.monotonic() - started) / items
    yield Figure("leaky_reader.item", each_item, None, "us", f"{leaked} leaks")


def writers_reader(writers: int, items: int, attempts: int, rounds: int) -> Iterator[Figure]:
    """Let writers with a key each meet one reader of a fair queue."""
    took = sum(_written_and_read(writers, items, attempts) for _ in range(rounds))
    yield Figure("writers_reader.round", 1e3 * took / rounds, None, "ms", f"{attempts:,} attempts")


def _written_and_read(writers: int, items: int, attempts: int) -> float:
    line: FairQueue[Tagged] = FairQueue(lambda item: item[0], writers * items + 100)
    taken: list[Tagged] = []

    def write(me: int) -> None:
        for number in range(items):
            line.put_nowait((me, number))

    def read() -> None:
        for _ in range(attempts):
            if line.qsize():
                taken.append(line.get_nowait())
            else:
                time.sleep(0)

    took = together([*each(writers, write), read])
    # The attempts may be over before the writers are.
    taken.extend(line.get_nowait() for _ in range(line.qsize()))
    wanted = [(me, number) for me in range(writers) for number in range(items)]
    require_once("items", taken, wanted)
    _require_order_of_each_source(taken)
    return took


class Hands:
    """Notes which elements somebody holds, and which are done."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[int] = set()
        self.overlaps = 0
        self.done: list[int] = []

    def handle(self, batch: Iterable[int], *, fails: bool) -> None:
        """Hold elements for a moment; then they are done, or all of them fail."""
        elements = set(batch)
        with self._lock:
            self.overlaps += len(elements & self._held)
            self._held |= elements
        time.sleep(0)
        with self._lock:
            self._held -= elements
            if not fails:
                self.done.extend(elements)
        if fails:
            raise BatchFailedError


class BatchFailedError(Exception):
    """Raised to fail a batch."""


def batches(
    adders: int, takers: int, elements: int, most: int, fail_share: float
) -> Iterator[Figure]:
    """Let adders offer the same elements to takers of batches, some of which fail."""
    line: DistinctQueue[int] = DistinctQueue()
    hands, accepted, failed = Hands(), [0] * adders, [0] * takers
    last = Barrier(adders, action=line.shutdown)

    def add(me: int) -> None:
        for element in random.Random(me).sample(range(elements), elements):  # noqa: S311
            accepted[me] += line.add(element)
        last.wait()

    def take_all(me: int) -> None:
        chance = random.Random(me)  # noqa: S311 - it has to be repeatable, not secret

        def take() -> None:
            with suppress(BatchFailedError), line.take(most) as batch:
                fails = chance.random() < fail_share
                failed[me] += fails
                hands.handle(batch, fails=fails)

        until_closed(take, [])

    took = together([*each(adders, add), *each(takers, take_all)])
    require(hands.overlaps == 0, f"{hands.overlaps} elements were in two hands")
    handled, wanted = len(hands.done), sum(accepted)
    require(handled == wanted, f"{wanted} were accepted, {handled} are done")
    require(set(hands.done) == set(range(elements)), "elements were lost")
    detail = f"{adders * elements - wanted:,} refused as duplicates, {sum(failed):,} batches failed"
    yield Figure("batches.element", 1e6 * took / wanted, None, "us", detail)
