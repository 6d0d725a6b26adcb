"""Compare what could carry the requests of a singular update queue, and what callers wait for.

The figures behind ``docs/adr/0006-singular-structure.md``. Prints one JSON line for each and a
table at the end, as ``core.py`` does.
"""

from __future__ import annotations

import itertools
import statistics
import threading
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, Protocol

import typer

from report import (
    Figure,
    at_least,
    at_most,
    measure,
    median_figure,
    ratio_figure,
    rounds,
    seconds,
)
from spark_queue.inprocess import SingularUpdateQueue

_EMPTY: Any = object()


class Line(Protocol):
    """Somewhere to put requests; one thread takes them."""

    def put(self, item: object) -> None:
        """Add at the end, and wait while there is no room."""
        ...

    def take(self) -> object:
        """Take the first, and wait while there is none."""
        ...


class LockedLine:
    """What is the same for two of them: one lock, and a condition for each side."""

    append: Callable[[object], object]
    popleft: Callable[[], object]

    def __init__(self, capacity: float) -> None:
        self._capacity = capacity
        lock = threading.Lock()
        self._has_room, self._has_items = threading.Condition(lock), threading.Condition(lock)
        self._count = 0

    def put(self, item: object) -> None:
        """Add at the end, and wait while there is no room."""
        with self._has_room:
            while self._count >= self._capacity:
                self._has_room.wait()
            self.append(item)
            self._count += 1
            self._has_items.notify()

    def take(self) -> object:
        """Take the first, and wait while there is none."""
        with self._has_items:
            while not self._count:
                self._has_items.wait()
            self._count -= 1
            item = self.popleft()
            self._has_room.notify()
            return item


class DequeLine(LockedLine):
    """A deque that grows and shrinks, with or without a limit."""

    def __init__(self, capacity: float) -> None:
        super().__init__(capacity)
        items = deque[object]()
        self.append, self.popleft = items.append, items.popleft


class ArrayLine(LockedLine):
    """A list of fixed size, written and read round and round under the lock."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._slots: list[Any] = [None] * capacity
        self._head = self._tail = 0
        self.append, self.popleft = self._store, self._fetch

    def _store(self, item: object) -> None:
        self._slots[self._tail] = item
        self._tail = (self._tail + 1) % len(self._slots)

    def _fetch(self) -> object:
        item, self._slots[self._head] = self._slots[self._head], None
        self._head = (self._head + 1) % len(self._slots)
        return item


class RingLine:
    """A list of fixed size without a lock: a producer claims a number, and fills its slot.

    Whoever waits gives its turn on the processor away and looks again.
    """

    def __init__(self, capacity: int) -> None:
        self._slots: list[Any] = [_EMPTY] * capacity
        self._claims = itertools.count()
        self._taken = 0

    def put(self, item: object) -> None:
        """Claim the next number, wait till its slot is free, and fill it."""
        number = next(self._claims)
        while number - self._taken >= len(self._slots):
            time.sleep(0)
        self._slots[number % len(self._slots)] = item

    def take(self) -> object:
        """Wait till the next slot is filled, and empty it."""
        slot = self._taken % len(self._slots)
        while (item := self._slots[slot]) is _EMPTY:
            time.sleep(0)
        self._slots[slot] = _EMPTY
        self._taken += 1
        return item


class BellLine:
    """A deque under one plain lock, whose worker is rung only when it sleeps.

    A producer that finds no room waits in a line of its own, and its item is put for it.
    """

    def __init__(self, capacity: float) -> None:
        self._capacity = capacity
        self._items = deque[object]()
        self._blocked = deque[tuple[object, threading.Lock]]()
        self._lock, self._bell = threading.Lock(), threading.Lock()
        self._bell.acquire()
        self._sleeps = False

    def put(self, item: object) -> None:
        """Add at the end, and wait while there is no room."""
        with self._lock:
            has_room = len(self._items) < self._capacity
            if has_room:
                self._items.append(item)
                rings, self._sleeps = self._sleeps, False
            else:
                bell = threading.Lock()
                bell.acquire()
                self._blocked.append((item, bell))
        if not has_room:
            bell.acquire()
        elif rings:
            self._bell.release()

    def take(self) -> object:
        """Take the first, and wait while there is none."""
        while True:
            with self._lock:
                if self._items:
                    return self._popleft()
                self._sleeps = True
            self._bell.acquire()

    def _popleft(self) -> object:
        if self._blocked:
            item, bell = self._blocked.popleft()
            self._items.append(item)
            bell.release()
        return self._items.popleft()


MAKERS: dict[str, Callable[[int], Line]] = {
    "deque": DequeLine,
    "array": ArrayLine,
    "ring": RingLine,
    "bell": BellLine,
}


def speed(quick: bool) -> Iterator[Figure]:  # noqa: FBT001 - what every section is called with
    """Put and take: on one thread, and from four producers to one worker."""
    count, turns = (4_000, 5) if quick else (40_000, 15)
    for shape, run, capacity in (
        ("alone", _alone, 100),
        ("four_producers", _four_producers, 100),
        ("four_producers.roomy", _four_producers, 2 * count),
    ):
        timed = rounds(
            {name: partial(run, make, capacity, count) for name, make in MAKERS.items()}, turns
        )
        for name in MAKERS:
            yield median_figure(
                f"speed.{shape}.{name}",
                [1e6 * each / count for each in timed[name]],
                None,
                f"a put and a take, {count:,} items, capacity {capacity:,}",
                "us",
            )
        for name in ("array", "ring", "bell"):
            yield ratio_figure(
                f"speed.{shape}.{name}_over_deque",
                timed["deque"],
                timed[name],
                None,
                "speed over that of the deque, round by round",
            )


def _alone(make: Callable[[int], Line], capacity: int, count: int) -> float:
    line = make(capacity)

    def run() -> None:
        for number in range(count):
            line.put(number)
            line.take()

    return seconds(run)


def _four_producers(make: Callable[[int], Line], capacity: int, count: int) -> float:
    line = make(capacity)
    share = count // 4

    def produce() -> None:
        for number in range(share):
            line.put(number)

    producers = [threading.Thread(target=produce) for _ in range(4)]

    def run() -> None:
        for producer in producers:
            producer.start()
        for _ in range(4 * share):
            line.take()
        for producer in producers:
            producer.join()

    return seconds(run)


def idle_cost(quick: bool) -> Iterator[Figure]:  # noqa: FBT001
    """Count what a worker costs while nothing comes, and what an empty line weighs."""
    span = 0.2 if quick else 1.0
    for name, make in MAKERS.items():
        line = make(100)
        worker = threading.Thread(target=line.take)
        worker.start()
        before = time.process_time()
        time.sleep(span)
        used = (time.process_time() - before) / span
        line.put(None)
        worker.join()
        detail = f"processor time of one waiting worker, over {span} s"
        yield Figure(f"idle.cpu.{name}", 100 * used, None, "%", detail)
    for name, make in MAKERS.items():
        tracemalloc.start()
        line = make(100_000)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        yield Figure(f"idle.memory.{name}", size / 1024, None, "KiB", "empty, capacity 100,000")


def stalls(quick: bool) -> Iterator[Figure]:  # noqa: FBT001
    """Time the call that hands an update over while updates are slow: queue against lock."""
    bursts = 2 if quick else 10
    waits = {name: _stalls(make, bursts) for name, make in _HANDOVERS.items()}
    for name, each in waits.items():
        for share in (50, 99):
            yield Figure(
                f"stall.p{share}.{name}",
                1e3 * statistics.quantiles(each, n=100)[share - 1],
                None,
                "ms",
                f"time in the call, 4 threads, {bursts} bursts of 20 updates of 1 ms",
            )
    middle = {name: statistics.median(each) for name, each in waits.items()}
    yield Figure(
        "stall.lock_over_queue",
        middle["lock"] / middle["queue"],
        at_least(10),
        detail="median time in the call under a lock, over that of submit",
    )
    yield Figure(
        "stall.queue_over_update",
        statistics.quantiles(waits["queue"], n=100)[98] / UPDATE,
        at_most(1),
        detail="99th percentile of submit, over the time of one update",
    )


#: Seconds that one update takes, such as a write that is forced to the disk.
UPDATE = 0.001

Handover = Callable[[], object]


def _with_lock(run: Callable[[Handover], None]) -> None:
    lock = threading.Lock()

    def update() -> None:
        with lock:
            time.sleep(UPDATE)

    run(update)


def _with_queue(capacity: int, run: Callable[[Handover], None]) -> None:
    with SingularUpdateQueue[None, None](lambda _: time.sleep(UPDATE), capacity) as line:
        run(lambda: line.submit(None))


_HANDOVERS: dict[str, Callable[[Callable[[Handover], None]], None]] = {
    "lock": _with_lock,
    "queue": partial(_with_queue, 100),
    "full_queue": partial(_with_queue, 8),
}


def _stalls(
    with_handover: Callable[[Callable[[Handover], None]], None], bursts: int
) -> list[float]:
    """Return how long each call took, of four threads that all begin each burst together."""
    waits: list[float] = []
    together = threading.Barrier(4)

    def produce(handover: Handover) -> None:
        for _ in range(bursts):
            together.wait()
            for _ in range(20):
                started = time.perf_counter()
                handover()
                waits.append(time.perf_counter() - started)
            # Long enough for all updates of the burst, so that the next finds nothing queued.
            time.sleep(120 * UPDATE)

    def run(handover: Handover) -> None:
        threads = [threading.Thread(target=produce, args=(handover,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with_handover(run)
    return waits


SECTIONS: dict[str, Callable[[bool], Iterator[Figure]]] = {
    "speed": speed,
    "idle": idle_cost,
    "stalls": stalls,
}


def main(
    only: Annotated[
        list[str] | None, typer.Option(help=f"Measure this: {', '.join(SECTIONS)}; repeatable.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds, smaller.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print no table.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on a missed target.")] = False,
) -> None:
    """Compare structures for a singular update queue, and a queue with a lock."""
    sections = {name: partial(section, quick) for name, section in SECTIONS.items()}
    raise typer.Exit(measure(sections, only, as_json=as_json, strict=strict))


if __name__ == "__main__":
    typer.run(main)
