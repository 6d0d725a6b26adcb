"""Measure claims whose length nobody says, beside the best explicit limit for the same work.

Every figure is a ratio of two times of one run, but for the memory, which is what the system gave
a process of its own. Prints one JSON line for each figure and a table at the end.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from place import session_and_folder
from report import Figure, at_least, at_most, measure
from spark_queue import DeltaQueue, LocalQueue, QueueConfig

SCHEMA = "n long, tenant string, grp string"
RETURNS = "length long"
TENANTS = 1_000

#: Items of the largest drain in a session, and without one.
IN_SESSION, HERE = 300_000, 100_000

#: How many items claims have that are compared with the default; fewer are for long items.
LIMITS = (1, 10, 100, 1_000, 10_000, 50_000, 300_000)


@dataclass
class Bench:
    """Where to measure, and how much smaller than the targets say."""

    scale: float
    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="lengths-")))
    numbers: Iterator[int] = field(default_factory=count)

    def rows(self, full: int) -> int:
        """Return a number of items at the scale of this run."""
        return max(20, int(full * self.scale))

    def place(self) -> str:
        """Return a new place: a queue is tidied up in the background for a while."""
        return str(self.root / str(next(self.numbers)))

    def queue(self, items: int, **settings: Any) -> LocalQueue:
        """Make a queue with items of many tenants."""
        config = QueueConfig(fair_key="tenant", **settings)
        queue = LocalQueue.create(self.place(), SCHEMA, config)
        ids = range(items)
        names = [f"tenant-{n % TENANTS}" for n in ids]
        groups = [f"group-{n % (4 * TENANTS)}" for n in ids]
        queue.enqueue(pa.table({"n": pa.array(ids, pa.int64()), "tenant": names, "grp": groups}))
        return queue


def length_of(item: dict[str, Any]) -> dict[str, int]:
    """Do as little as a handler with a result can."""
    return {"length": len(item["tenant"])}


def asleep(seconds: float) -> Callable[[dict[str, Any]], None]:
    """Return a handler that takes a time."""
    return lambda _: time.sleep(seconds)


def mixed(item: dict[str, Any]) -> None:
    """Take a millisecond, or ten seconds for one of a hundred."""
    time.sleep(10 if item["n"] % 100 == 50 else 0.001)  # noqa: PLR2004 - one of them


def _drain(bench: Bench, items: int, handler: Callable[..., Any], **options: Any) -> float:
    queue = bench.queue(items)
    began = time.perf_counter()
    done = queue.process(handler, **options)
    took = time.perf_counter() - began
    if done.acked != items:
        raise AssertionError(f"{done.acked} of {items} items are done")
    return took


def _beside_the_best(
    name: str, drain: Callable[..., float], limits: Sequence[int], target: float, what: str
) -> Figure:
    """Compare the default with the explicit limit that is the best for the same drain."""
    default = drain()
    explicit = {limit: drain(limit=limit) for limit in limits}
    best = min(explicit, key=explicit.__getitem__)
    times = ", ".join(f"{limit}: {took:.1f}" for limit, took in explicit.items())
    detail = f"{what}: {default:.1f} s over {explicit[best]:.1f} at {best}; of all: {times}"
    return Figure(name, default / explicit[best], at_most(target), "x", detail)


def session(bench: Bench) -> Iterator[Figure]:
    """Drain items that take no time, with an output, in a session."""
    items = bench.rows(IN_SESSION)
    with session_and_folder("lengths", None) as (spark, root):

        def drain(**options: Any) -> float:
            place = root / str(next(bench.numbers))
            config = QueueConfig(fair_key="tenant")
            queue = DeltaQueue.create(spark, str(place), SCHEMA, config)
            frame = spark.range(items).selectExpr(
                "id as n", f"concat('tenant-', id % {TENANTS}) as tenant", "'' as grp"
            )
            queue.enqueue(frame)
            began = time.perf_counter()
            done = queue.process(length_of, returns=RETURNS, output=f"{place}-output", **options)
            took = time.perf_counter() - began
            if done.acked != items:
                raise AssertionError(f"{done.acked} of {items} items are done")
            return took

        drain(limit=items)
        limits = [*(limit for limit in LIMITS if items / 30 <= limit < items), items]
        what = f"{items} items without work, with an output"
        yield _beside_the_best("session", drain, limits, 1.3, what)


def here(bench: Bench) -> Iterator[Figure]:
    """Drain items that take no time, with an output, without Spark."""
    items = bench.rows(HERE)

    def drain(**options: Any) -> float:
        return _drain(bench, items, length_of, returns=RETURNS, output=bench.place(), **options)

    limits = [*(limit for limit in LIMITS if items / 100 <= limit < items), items]
    what = f"{items} items without work, with an output"
    yield _beside_the_best("here", drain, limits, 1.3, what)


def durations(bench: Bench) -> Iterator[Figure]:
    """Drain items that take a millisecond, a tenth of a second, ten seconds, and a mix."""
    cases: tuple[tuple[str, Callable[..., Any], int, int, Sequence[int]], ...] = (
        ("1ms", asleep(0.001), bench.rows(20_000), 1, (100, 1_000, 10_000)),
        ("100ms", asleep(0.1), bench.rows(1_000), 4, (1, 10, 100)),
        ("10s", asleep(10), 4, 2, (1, 2, 4)),
        ("mix", mixed, bench.rows(2_000), 4, (10, 100, 1_000)),
    )
    for name, handler, items, workers, limits in cases:
        drain = partial(_drain, bench, items, handler, max_workers=workers)
        what = f"{items} items, {workers} threads"
        yield _beside_the_best(f"durations.{name}", drain, limits, 1.2, what)


def workers(bench: Bench) -> Iterator[Figure]:
    """Let processes share items that take 50 ms."""
    items, each = bench.rows(1_000), 0.05
    for hands in (2, 4):
        place = bench.queue(items).name
        command = [sys.executable, __file__, "--work", place]
        began = time.perf_counter()
        children = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
            for _ in range(hands)
        ]
        told = [child.communicate()[0].split() for child in children]
        ends = [float(end) for _, _, end in told]
        starts = [float(start) for _, start, _ in told]
        shares = [int(share) for share, _, _ in told]
        if sum(shares) != items:
            raise AssertionError(f"{shares} of {items} items are done")
        # Those that begin later, as a busy machine starts them, have less to do.
        late = sum(start - min(starts) for start in starts)
        ideal = (items * each + late) / hands
        took = time.perf_counter() - began
        detail = f"{items} items of 50 ms: {shares}; {took:.1f} s in all, {late:.1f} s begun later"
        yield Figure(
            f"workers.{hands}.share", max(shares) / max(1, min(shares)), at_most(1.5), "x", detail
        )
        took = max(ends) - min(starts)
        yield Figure(f"workers.{hands}.time", took / ideal, at_most(1.25), "x", detail)


def work(place: str) -> None:
    """Be one of those processes: print its share, and when it began and ended."""
    queue = LocalQueue.open(place)
    began = time.time()
    done = queue.process(asleep(0.05))
    typer.echo(f"{done.acked} {began} {time.time()}")


def memory(bench: Bench) -> Iterator[Figure]:
    """Drain 300 items of 3 MB in a process of its own."""
    items = bench.rows(300)
    queue = LocalQueue.create(bench.place(), "n long, body binary", QueueConfig())
    for first in range(0, items, 10):
        rows = [{"n": n, "body": os.urandom(3_000_000)} for n in range(first, first + 10)]
        queue.enqueue(rows)
    told = subprocess.run(  # noqa: S603 - our own
        [sys.executable, __file__, "--weigh", queue.name],
        capture_output=True,
        text=True,
        check=True,
    )
    detail = f"{items} items of 3 MB, without Spark"
    yield Figure("memory", float(told.stdout) / 2**30, at_most(0.4), "GiB", detail)


def weigh(place: str) -> None:
    """Drain a queue, and print the most memory that this took."""
    LocalQueue.open(place).process(lambda _: None)
    status = Path("/proc/self/status").read_text()
    (most,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    typer.echo(int(most) * 1_024)


def dip(bench: Bench) -> Iterator[Figure]:
    """Drain items in turns and groups by claims of growing length."""
    items = bench.rows(60_000)
    rates = {}
    for limit in (100, 1_000, 2_000, 5_000, 10_000, 20_000):
        queue = bench.queue(items, group_key="grp", on_failure="skip")
        began = time.perf_counter()
        queue.process(lambda _: None, limit=limit, max_per_group=1)
        rates[limit] = items / (time.perf_counter() - began)
    for before, limit in pairwise(rates):
        detail = f"{items} items, {rates[limit]:,.0f}/s over {rates[before]:,.0f}/s at {before}"
        yield Figure(f"dip.{limit}", rates[limit] / rates[before], at_least(0.95), "x", detail)
    yield Figure("dip.rate", rates[5_000], at_least(20_000), "items/s", "5,000 a claim")


SECTIONS: dict[str, Callable[[Bench], Iterable[Figure]]] = {
    "session": session,
    "here": here,
    "durations": durations,
    "workers": workers,
    "memory": memory,
    "dip": dip,
}


def main(
    only: Annotated[
        list[str] | None, typer.Option(help=f"Measure this: {', '.join(SECTIONS)}; repeatable.")
    ] = None,
    scale: Annotated[float, typer.Option(min=1e-4, help="How much of the full size.")] = 1.0,
    work_at: Annotated[str | None, typer.Option("--work", hidden=True)] = None,
    weigh_at: Annotated[str | None, typer.Option("--weigh", hidden=True)] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print no table.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on a missed target.")] = False,
) -> None:
    """Compare the default length of claims with the best explicit one."""
    if work_at is not None:
        work(work_at)
        return
    if weigh_at is not None:
        weigh(weigh_at)
        return
    bench = Bench(scale)
    sections = {name: partial(section, bench) for name, section in SECTIONS.items()}
    sys.exit(measure(sections, only, as_json=as_json, strict=strict))


if __name__ == "__main__":
    typer.run(main)
