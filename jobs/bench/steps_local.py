"""Small steps of a queue without Spark, beside what others do with the same promise."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

from appends import Contender
from compiled import environment
from report import (
    Figure,
    Target,
    at_least,
    at_most,
    median_figure,
    ratio_figure,
    rounds as in_turns,
)
from small_steps import Meter
from spark_queue import LocalClaim, LocalQueue, QueueConfig
from spark_queue.durability import StepDurability
from steps_bench import WARM, Bench, alone, compared, counted, millis, rows
from syncs import is_traced, slow

#: How many bare commits are made into one table, before there is a fresh one.
_FRESH = 10

#: Open items of the small and of the large queue.
_FEW, _MANY = 1_000, 40_000

#: Seconds that a sync takes longer on a slow disk.
_SLOW = 0.002

_STEPS = ("enqueue", "claim", "settle")


def one_row(bench: Bench) -> Iterator[Figure]:
    """Compare an enqueue, a claim and a settle of one row with the bare commit of it, in turns."""
    queue, meter, bare = bench.queue("one-row"), alone(), _fresh()
    for number in range(bench.rounds + WARM):
        if number == WARM:
            meter.taken.clear()
        if number % _FRESH == 0:
            bare.close()
            bare = _fresh()
        meter.time("bare", bare.step)
        _trip(queue, number, meter)
    detail = f"one row over a bare commit with syncs into a fresh table, {bench.rounds} in turns"
    for name in _STEPS:
        at = at_most(1)
        yield from compared(meter, name, "bare", section="one_row", target=at, detail=detail)
    yield millis("one_row.bare.wait", meter.waits("bare"), None, "write_deltalake of one row")
    yield millis("one_row.bare.work", meter.works("bare"), None, "write_deltalake of one row")
    yield millis("one_row.rows.wait", meter.waits("rows"), None, "the rows of a claim")
    yield from _syncs(queue, bare)
    bare.close()


def _fresh() -> Contender:
    """Make a table into which a row was written, so that its own beginning is no part of a step."""
    made = Contender("deltalake", synced=True)
    made.step()
    return made


def _trip(queue: LocalQueue, number: int, meter: Meter) -> None:
    meter.time("enqueue", partial(queue.enqueue, rows(number, 1)))
    claim: LocalClaim = meter.time("claim", partial(queue.claim, 1))
    meter.time("rows", lambda: claim.rows)
    meter.time("settle", claim.ack)


def _syncs(queue: LocalQueue, bare: Contender) -> Iterator[Figure]:
    """Count the syncs of one step of each kind."""
    claims: list[LocalClaim] = []
    steps: dict[str, Callable[[], object]] = {
        "bare": bare.step,
        "enqueue": lambda: queue.enqueue(rows(-1, 1)),
        "claim": lambda: claims.append(queue.claim(1)),
        "settle": lambda: [claim.ack() for claim in claims],
    }
    for name, step in steps.items():
        yield from counted(f"one_row.{name}", step, "of one step")


def depth(bench: Bench) -> Iterator[Figure]:
    """Compare claims of ten with few and with many open items, in turns; and their first ones."""
    queues = {size: _filled(bench, size) for size in (_FEW, _MANY)}
    firsts, meter = alone(), alone()
    for size, queue in queues.items():
        firsts.time(f"{size}", partial(queue.claim, 10))
    for _ in range(bench.rounds):
        for size, queue in queues.items():
            meter.time(f"{size}", partial(queue.claim, 10))
    few, many = (meter.waits(f"{size}") for size in queues)
    yield millis("claim.ten", few, at_most(50), f"ten of {_FEW:,} open, synced")
    yield millis("claim.ten.work", meter.works(f"{_FEW}"), None, f"ten of {_FEW:,} open")
    detail = f"ten of {_MANY:,} open over ten of {_FEW:,}, warm"
    yield ratio_figure("depth.claim", many, few, at_most(1.3), detail)
    detail = f"the first claim of a process, {_MANY:,} open"
    yield Figure("depth.first", firsts.waits(f"{_MANY}")[0], at_most(5), "s", detail)


def _filled(bench: Bench, size: int) -> LocalQueue:
    """Make a queue with so many open items, of which nobody has made a picture yet."""
    made = bench.queue(f"depth-{size}", QueueConfig(fair_key="tenant"))
    made.enqueue(rows(0, size))
    return LocalQueue.open(made.name)


def trips(bench: Bench) -> Iterator[Figure]:
    """Compare put, take and ack of one item with those of a queue in SQLite, in turns."""
    yield from _trips(bench, "disk", None if is_traced() else at_least(0.2))
    if not is_traced():
        yield from _trips(bench, "process", None)
        yield from _slow_trips(bench)


def _slow_trips(bench: Bench) -> Iterator[Figure]:
    """Measure the same where each sync of both sides takes two milliseconds more."""
    place, count = bench.root / "slow", str(bench.rounds)
    place.mkdir()
    steps = (str(Path(__file__).with_name("steps.py")), "--only", "trips", "--json")
    command = (sys.executable, *steps, "--place", str(place), "--rounds", count)
    told = map(json.loads, (slow(command, _SLOW) or "").splitlines())
    for one in told:
        target = at_least(0.5) if one["name"] == "trips" else None
        name = one["name"].replace("trips", "trips.slow")
        detail = f"{one['details']}, 2 ms more a sync"
        yield Figure(name, one["value"], target, one["unit"], detail)


def _trips(bench: Bench, how: StepDurability, target: Target | None) -> Iterator[Figure]:
    queue, numbers, meter = bench.queue(f"trips-{how}", durability=how), count(), alone()
    theirs = _sqlite(bench, how)

    def ours() -> None:
        _trip(queue, next(numbers), Meter(work=float))

    for number in range(bench.rounds + WARM):
        if number == WARM:
            meter.taken.clear()
        meter.time("sqlite", theirs)
        meter.time("ours", ours)
    name = "trips" if how == "disk" else "trips.unsynced"
    detail = f"one item put, taken and acked: rates over SQLiteAckQueue's, {bench.rounds} in turns"
    yield ratio_figure(name, meter.waits("sqlite"), meter.waits("ours"), target, detail)
    yield ratio_figure(f"{name}.work", meter.works("sqlite"), meter.works("ours"), None, detail)
    for who, trip in (("ours", ours), ("sqlite", theirs)):
        yield millis(f"{name}.{who}", meter.waits(who), None, "a round trip")
        yield from counted(f"{name}.{who}", trip, "of a round trip")


def _sqlite(bench: Bench, how: StepDurability) -> Callable[[], None]:
    """Return a round trip through a queue in SQLite that promises the same."""
    # Here, so that all other sections need no package that only this one does.
    from persistqueue import SQLiteAckQueue  # noqa: PLC0415

    made, numbers = SQLiteAckQueue(str(bench.root / f"sqlite-{how}"), auto_commit=True), count()
    # It has no name for it; in a log that is written ahead, NORMAL syncs no commit.
    level = "FULL" if how == "disk" else "NORMAL"
    made._putter.execute(f"PRAGMA synchronous={level}")  # noqa: SLF001

    def trip() -> None:
        made.put(rows(next(numbers), 1)[0])
        made.ack(made.get())

    return trip


def rates(bench: Bench) -> Iterator[Figure]:
    """Claim, read and ack ten, 100 and 1,000 items at a time."""
    queue = bench.queue("rates")
    for size in (10, 100, 1_000):
        meter, times = alone(), max(3, bench.rounds // 4)
        queue.enqueue(rows(size, size * (times + 1)))
        for _ in range(times + 1):
            _worked_off(queue, size, meter)
        detail = f"claims of {size:,}, their rows, and acks, synced, {times} of them"
        waits, works = meter.waits("all")[1:], meter.works("all")[1:]
        yield median_figure(f"rates.{size}", [size / s for s in waits], None, detail, "items/s")
        for name in ("claim", "rows", "ack"):
            yield millis(f"rates.{size}.{name}", meter.waits(name)[1:], None, detail)
        micros = [1e6 * work / size for work in works]
        yield median_figure(f"rates.{size}.work", micros, None, detail, "us an item")


def _worked_off(queue: LocalQueue, size: int, meter: Meter) -> None:
    def all_of_it() -> None:
        claim: LocalClaim = meter.time("claim", partial(queue.claim, size))
        meter.time("rows", lambda: claim.rows)
        meter.time("ack", claim.ack)

    meter.time("all", all_of_it)


def start(bench: Bench) -> Iterator[Figure]:
    """Measure what a process does before its first step: imports, and a look at a queue."""
    name = bench.queue("start").name
    programs = {
        "arrow": ("import pyarrow", None),
        "import": ("import spark_queue", 0.3),
        "import.queue": ("import spark_queue; spark_queue.LocalQueue", None),
        "open": (f"import spark_queue; spark_queue.open({name!r}).counts()", 0.3),
    }
    runs = {key: partial(_told, program) for key, (program, _) in programs.items()}
    for run in runs.values():
        run()  # It compiles modules.
    for key, seconds in in_turns(runs, max(3, bench.rounds // 8)).items():
        bound = programs[key][1]
        target = None if bound is None else at_most(bound)
        detail = f"a fresh interpreter: {programs[key][0].replace(name, 'queue')}"
        yield median_figure(f"start.{key}", seconds, target, detail, "s")


def _told(program: str) -> float:
    """Run a program in a fresh interpreter, and return the seconds that it took there."""
    timed = f"import time; began = time.perf_counter(); {program}; print(time.perf_counter()-began)"
    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", timed],
        check=True,
        capture_output=True,
        text=True,
        env=environment(),
    )
    return float(ran.stdout)
