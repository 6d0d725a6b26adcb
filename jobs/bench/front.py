"""Measure the fronts in the driver, beside two queues on the same disk that are made for it.

``persist-queue``'s ``SQLiteAckQueue`` and ``litequeue`` keep their items in SQLite; both are asked
for one item at a time. What each promises when a call returns: both of them that the item is in a
committed transaction of a write-ahead log (a crash of the process loses nothing, one of the machine
may lose the last); the front with ``interval`` nothing yet, with ``commit`` the same as those, once
its future is done. Steps are written natively, save where a figure says Spark. Items are of 1 KiB,
and no two of them are the same: nothing is won by a dictionary.
"""

from __future__ import annotations

import queue
import random
import resource
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer
from litequeue import LiteQueue
from persistqueue import SQLiteAckQueue
from pyspark.sql import SparkSession

from place import session_and_folder
from report import Figure, at_least, at_most, measure, median_figure, ratio_figure, rounds, seconds
from spark_queue.errors import QueueExistsError
from spark_queue.front.durable import DurableQueue
from spark_queue.front.journaled import journaled_queue
from spark_queue.journal import JournaledQueue, MemoryJournal, QueueOptions
from spark_queue.local_queue import LocalQueue

app = typer.Typer(add_completion=False)

PRODUCERS = 4
OUTSTANDING = 10_000

#: Who commits: a front in a session, natively or by Spark, or one without a session.
Lane = Literal["native", "spark", "alone"]
LANES: tuple[Lane, ...] = ("native", "spark", "alone")

_SEED = random.Random(20261122)  # noqa: S311 - for a benchmark
_ITEMS = cycle([_SEED.randbytes(1024) for _ in range(20_000)])
_TEXTS = cycle([_SEED.randbytes(512).hex() for _ in range(20_000)])


@dataclass(frozen=True, slots=True)
class Bench:
    """Where and how much is measured."""

    spark: SparkSession
    root: Path
    scale: float
    repeats: int

    def count(self, full: int) -> int:
        """Return how many items stand for the full number."""
        return max(100, int(full * self.scale))

    @contextmanager
    def front(
        self, name: str, *, lane: Lane = "native", **options: Any
    ) -> Iterator[JournaledQueue[bytes]]:
        """Open a front over a queue of its own, or the one of that name."""
        made = QueueOptions(**{"durability": "interval", "max_pending": None, **options})
        path = f"{self.root}/{name}"
        with self._opened(path, lane, made) as opened:
            yield opened

    def _opened(self, path: str, lane: Lane, made: QueueOptions) -> JournaledQueue[bytes]:
        if lane != "alone":
            return journaled_queue(self.spark, path, options=made, native=lane == "native")
        with suppress(QueueExistsError):
            LocalQueue.create(path, "data binary")
        return journaled_queue(LocalQueue.open(path), options=made)


def puts(bench: Bench) -> Iterable[Figure]:
    """Put with ``interval`` durability, beside a queue of the standard library."""
    count = bench.count(100_000)

    def standard() -> float:
        plain: queue.Queue[bytes] = queue.Queue()
        return seconds(partial(_each, count, lambda: plain.put(next(_ITEMS)))) / count

    def ours() -> float:
        with bench.front(f"puts-{time.monotonic_ns()}") as front:
            return seconds(partial(_each, count, lambda: front.put(next(_ITEMS)))) / count

    times = rounds({"standard": standard, "ours": ours}, bench.repeats + 2)
    detail = f"{count} puts of 1 KiB, one thread; the rate over queue.Queue's"
    yield ratio_figure("put.interval", times["standard"], times["ours"], at_least(0.3), detail)


def durable(bench: Bench) -> Iterable[Figure]:
    """Put durably from four threads, with many puts outstanding."""
    count = bench.count(100_000)
    small = bench.count(10_000)
    contenders: dict[str, Callable[[], float]] = {
        "ours": partial(_durable_puts, bench, count),
        "alone": partial(_durable_puts, bench, count, lane="alone"),
        "spark": partial(_durable_puts, bench, count, lane="spark"),
        "ack": partial(_ack_puts, bench, small),
        "lite": partial(_lite_puts, bench, small),
    }
    rates = rounds(contenders, bench.repeats)
    detail = f"{PRODUCERS} producers, {OUTSTANDING} outstanding, items/s"
    yield ratio_figure("durable.ack", rates["ours"], rates["ack"], at_least(10), detail)
    yield ratio_figure("durable.lite", rates["ours"], rates["lite"], at_least(2), detail)
    for name in contenders:
        yield median_figure(f"durable.rate.{name}", rates[name], None, detail, "items/s")


def _durable_puts(bench: Bench, count: int, *, lane: Lane = "native") -> float:
    name = f"durable-{time.monotonic_ns()}"
    with bench.front(name, lane=lane, durability="commit") as front:
        front.put(next(_ITEMS)).result()

        def produce() -> None:
            pending: list[Future[int]] = []
            for _ in range(count // PRODUCERS):
                pending.append(front.put(next(_ITEMS)))
                if len(pending) >= OUTSTANDING // PRODUCERS:
                    pending[len(pending) // 2].result()
                    pending = [future for future in pending if not future.done()]
            wait(pending)

        return count / _together([produce] * PRODUCERS)


def _ack_puts(bench: Bench, count: int) -> float:
    made = SQLiteAckQueue(str(bench.root / f"ack-{time.monotonic_ns()}"), multithreading=True)
    produce = partial(_each, count // PRODUCERS, lambda: made.put(next(_ITEMS)))
    return count / _together([produce] * PRODUCERS)


def _lite_puts(bench: Bench, count: int) -> float:
    made = LiteQueue(str(bench.root / f"lite-{time.monotonic_ns()}"))
    lock = threading.Lock()

    def put() -> None:
        with lock:
            made.put(next(_TEXTS))

    produce = partial(_each, count // PRODUCERS, put)
    return count / _together([produce] * PRODUCERS)


def latency(bench: Bench) -> Iterable[Figure]:
    """Wait for the commit of groups of several sizes, natively, by Spark, and without it."""
    for lane in LANES:
        with bench.front(f"latency-{lane}", lane=lane, durability="commit") as front:
            front.put(next(_ITEMS)).result()
            for size in (1, 100, 10_000):
                times = sorted(_commits(front, size))
                detail = f"groups of {size}, {len(times)} of them"
                name = f"{lane}.{size}"
                yield Figure(f"commit.p50.{name}", statistics.median(times), None, "s", detail)
                yield Figure(f"commit.p99.{name}", times[-1], None, "s", f"{detail}; the longest")


def _commits(front: JournaledQueue[bytes], size: int) -> Iterator[float]:
    for _ in range(20):
        started = time.perf_counter()
        wait([front.put(next(_ITEMS)) for _ in range(size)])
        yield time.perf_counter() - started


def arrivals(bench: Bench) -> Iterable[Figure]:
    """Time puts that come at random, twenty a second, until a taker has the item."""
    count, put, got = bench.count(200), dict[int, float](), dict[int, float]()
    made = LocalQueue.create(str(bench.root / "arrivals"), "n long")
    with DurableQueue(made) as front:

        def take() -> None:
            while len(got) < count:
                one = front.get(timeout=60)
                got[cast("int", one.item["n"])] = time.perf_counter()
                front.ack(one)

        taker = threading.Thread(target=take)
        taker.start()
        for number in range(count):
            time.sleep(random.expovariate(20))
            put[number] = time.perf_counter()
            front.put({"n": number})
        taker.join()
    times = sorted((got[number] - put[number]) * 1_000 for number in put)
    detail = f"{count} puts, 20 a second at random"
    yield Figure("arrivals.p50", statistics.median(times), at_most(15), "ms", detail)
    yield Figure("arrivals.p99", times[int(count * 0.99)], at_most(40), "ms", detail)


def gets(bench: Bench) -> Iterable[Figure]:
    """Get and ack through the front, beside litequeue."""
    count, small = bench.count(100_000), bench.count(10_000)

    def ours() -> float:
        with bench.front(f"gets-{time.monotonic_ns()}") as front:
            _each(count, lambda: front.put(next(_ITEMS)))
            front.sync()
            reader = front.reader("")
            return count / seconds(partial(_each, count, lambda: reader.ack(reader.get())))

    def lite() -> float:
        made = LiteQueue(str(bench.root / f"lite-{time.monotonic_ns()}"))
        _each(small, lambda: made.put(next(_TEXTS)))
        return small / seconds(partial(_each, small, lambda: made.done(made.pop().message_id)))

    rates = rounds({"ours": ours, "lite": lite}, bench.repeats)
    detail = f"{count} gets and acks, one thread, the acks durable within a second"
    yield ratio_figure("get.lite", rates["ours"], rates["lite"], at_least(5), detail)
    yield median_figure("get.rate.ours", rates["ours"], None, detail, "items/s")


def kestrel(bench: Bench) -> Iterable[Figure]:
    """Put kestrel's loads on a front, at their published sizes, without a network in between."""
    yield Figure("put-many", _put_many(bench), None, "us", "100 clients, 10,000 items of 1 KiB")
    yield Figure("flood", _flood(bench), None, "us", "10,000 items, 1 producer, 1 consumer")
    yield Figure("packing", _packing(bench), None, "us", "25,000 items behind, 100 write and read")


def _put_many(bench: Bench) -> float:
    with bench.front("put-many") as front:
        produce = partial(_each, 100, lambda: front.put(next(_ITEMS)))
        return _together([produce] * 100) / 10_000 * 1e6


def _flood(bench: Bench) -> float:
    count = 10_000
    with bench.front("flood") as front:
        reader = front.reader("")
        put = partial(_each, count, lambda: front.put(next(_ITEMS)))
        get = partial(_each, count, lambda: reader.ack(reader.get()))
        return _together([put, get]) / count * 1e6


def _packing(bench: Bench) -> float:
    count = 25_000
    with bench.front("packing", max_memory_items=10_000) as front:
        reader = front.reader("")
        _each(count, lambda: front.put(next(_ITEMS)))

        def turn() -> None:
            front.put(next(_ITEMS))
            reader.ack(reader.get())

        return seconds(partial(_each, 100, turn)) / 100 * 1e6


def startup(bench: Bench) -> Iterable[Figure]:
    """Open a queue with much history, and one with much to do."""
    few, many = bench.count(10_000), bench.count(200_000)
    opened = {"few": _finished(bench, "few", few), "many": _finished(bench, "many", many)}
    detail = f"open with {many} finished items, beside {few}"
    yield ratio_figure("open.history", opened["many"], opened["few"], at_most(1.3), detail)

    live = bench.count(1_000_000)
    with bench.front("live", max_memory_items=1_000, max_pending=50_000) as front:
        _each(live, lambda: front.put(next(_ITEMS)))
    table = bench.spark.read.format("delta").load(f"{bench.root}/live/queue")
    read = [seconds(lambda: table.selectExpr("sum(length(data))").collect()) for _ in range(3)]
    taken = [_opened(bench, "live") for _ in range(3)]
    yield ratio_figure(
        "open.live", taken, read, at_most(2), f"{live} live items of 1 KiB, beside reading them"
    )


def _finished(bench: Bench, name: str, count: int) -> list[float]:
    with bench.front(name) as front:
        reader = front.reader("")
        for _ in range(count // 1_000):
            _each(1_000, lambda: front.put(b"0123456789"))
            _each(1_000, lambda: reader.ack(reader.get()))
    _opened(bench, name)
    return [_opened(bench, name) for _ in range(3)]


def _opened(bench: Bench, name: str) -> float:
    started = time.perf_counter()
    with bench.front(name):
        return time.perf_counter() - started


def memory(bench: Bench) -> Iterable[Figure]:
    """Queue five million items with room for ten thousand in memory."""
    count = bench.count(5_000_000)
    item = b"0123456789" * 10
    with bench.front("memory", max_memory_items=10_000, max_pending=50_000) as front:
        _each(min(count, 100_000), lambda: front.put(item))
        before = _peak()
        _each(count, lambda: front.put(item))
        front.sync()
        grown = _peak() - before
    yield Figure("memory.grown", grown, at_most(100), "MiB", f"{count} items of 100 bytes queued")


def readers(bench: Bench) -> Iterable[Figure]:
    """Write with ten readers registered, beside one."""
    count = bench.count(100_000)

    def written(number: int) -> float:
        with bench.front(f"readers-{number}-{time.monotonic_ns()}") as front:
            for k in range(number):
                front.reader(f"r{k}")

            def write() -> None:
                _each(count, lambda: front.put(next(_ITEMS)))
                front.sync()

            return seconds(write) / count

    times = rounds({"one": partial(written, 1), "ten": partial(written, 10)}, bench.repeats)
    detail = f"{count} items written and durable"
    yield ratio_figure("readers.ten", times["ten"], times["one"], at_most(1.5), detail)


def in_memory(bench: Bench) -> Iterable[Figure]:
    """Measure what the queue itself costs: the same front over a journal in memory."""
    count = bench.count(100_000)
    options = QueueOptions(durability="interval", max_pending=None)
    journal: MemoryJournal[bytes] = MemoryJournal()
    with JournaledQueue(journal, options=options) as front:
        put = seconds(partial(_each, count, lambda: front.put(next(_ITEMS)))) / count
        reader = front.reader("")
        got = seconds(partial(_each, count, lambda: reader.ack(reader.get()))) / count
    yield Figure("memory.put", put * 1e6, None, "us", "no Delta")
    yield Figure("memory.get", got * 1e6, None, "us", "get and commit, no Delta")


def _each(count: int, call: Callable[[], object]) -> None:
    for _ in range(count):
        call()


def _together(calls: Iterable[Callable[[], object]]) -> float:
    """Run calls in a thread each, and return how long all took."""
    threads = [threading.Thread(target=call) for call in calls]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def _peak() -> float:
    """Return the most memory that this process ever had, in MiB; the JVM is another process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


SECTIONS: dict[str, Callable[[Bench], Iterable[Figure]]] = {
    "in-memory": in_memory,
    "puts": puts,
    "durable": durable,
    "latency": latency,
    "arrivals": arrivals,
    "gets": gets,
    "kestrel": kestrel,
    "startup": startup,
    "readers": readers,
    "memory": memory,
}


@app.command(help=__doc__)
def main(
    only: Annotated[list[str] | None, typer.Option(help="Sections to run; all of them.")] = None,
    scale: Annotated[float, typer.Option(min=1e-4, help="How much of the full size.")] = 1.0,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of each figure.")] = 3,
    place: Annotated[Path | None, typer.Option(help="Where to put the queues.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="No table at the end.")] = False,
    strict: Annotated[bool, typer.Option(help="Fail when a target is missed.")] = False,
) -> None:
    """Measure the sections that were asked for."""
    with session_and_folder("front", place) as (spark, root):
        bench = Bench(spark, root, scale, repeats)
        sections = {name: (lambda run=run: run(bench)) for name, run in SECTIONS.items()}
        code = measure(sections, only, as_json=as_json, strict=strict)
    raise typer.Exit(code)


if __name__ == "__main__":
    app()
