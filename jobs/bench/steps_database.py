"""Items a second, claimed, handled and completed, beside a queue on PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING

import typer

import postgres
from report import Figure, at_least, median_figure, ratio_figure, rounds as in_turns
from small_steps import Meter
from spark_queue import LocalQueue, QueueConfig
from steps_bench import Bench, Row, counted, rows

if TYPE_CHECKING:
    from pgqueuer_drain import PgQueuer

#: Items of a claim, and of a round.
_ROUNDS: Mapping[int, int] = {100: 3_000, 1_000: 10_000}

_REPEATS = 5

#: Works off everything by claims of a size, and returns the seconds until all was durable.
Drain = Callable[[int, Callable[[Row], object]], float]


def database(bench: Bench) -> Iterator[Figure]:
    """Work off the same items by claims of 100 and of 1,000, in turns, all of it durable."""
    missing = list(_missing())
    for what in missing:
        typer.echo(f"database is left out: {what}", err=True)
    if missing:
        return
    from pgqueuer_drain import PgQueuer  # noqa: PLC0415 - only where it is installed

    with postgres.server(bench.root) as socket:
        # What it has, too: a job that is there once. Turns and groups of ours are in ``rates``.
        theirs, ours = PgQueuer(socket), bench.queue("database", QueueConfig(dedup_key="path"))
        for size in _ROUNDS:
            yield from _rates(bench, ours, theirs, size)


def _missing() -> Iterator[str]:
    if postgres.programs() is None:
        yield "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    for name in ("pgqueuer", "asyncpg"):
        if find_spec(name) is None:
            yield f"{name} is not installed (pip install 'spark-queue[bench]')"


def _rates(bench: Bench, ours: LocalQueue, theirs: PgQueuer, size: int) -> Iterator[Figure]:
    items, repeats = bench.rows(_ROUNDS[size]) // size * size or size, min(_REPEATS, bench.rounds)
    numbers, meter, puts = count(), Meter(), Meter()

    def drained(name: str, put: Callable[[list[Row]], object], drain: Drain) -> float:
        for _ in range(items // size):
            puts.time(name, partial(put, rows(_number(size, next(numbers)), size)))
        handled: list[Row] = []
        took: float = meter.time(name, lambda: drain(size, handled.append))
        if len(handled) != items:
            raise AssertionError(f"{name}: {len(handled)} of {items} items")
        return items / took

    found = in_turns(
        {
            "ours": lambda: drained("ours", ours.enqueue, partial(_worked_off, ours)),
            "consumer": lambda: drained("consumer", theirs.put, theirs.consume),
            "statements": lambda: drained("statements", theirs.put, theirs.exchange),
        },
        repeats + 1,
    )
    rates = {name: values[1:] for name, values in found.items()}
    name, detail = f"database.{size}", f"{items:,} items by claims of {size:,}, {repeats} in turns"
    over = f"{detail}: items a second over PgQueuer's"
    yield ratio_figure(name, rates["ours"], rates["consumer"], at_least(0.7), over)
    over = f"{detail}: over the statements of PgQueuer without its consumer"
    yield ratio_figure(f"{name}.statements", rates["ours"], rates["statements"], None, over)
    for who, values in rates.items():
        yield median_figure(f"{name}.rate.{who}", values, None, detail, "items/s")
        micros = [1e6 * work / items for work in meter.works(who)[1:]]
        yield median_figure(f"{name}.work.{who}", micros, None, detail, "us an item")
    for who in ("ours", "statements"):
        put = [size / wait for wait in puts.waits(who)[items // size :]]
        yield median_figure(f"{name}.put.{who}", put, None, f"puts of {size:,}", "items/s")
    yield from _syncs(name, ours, theirs, size)


def _number(size: int, number: int) -> int:
    """Return a number that no other round of any size has."""
    return size * 1_000_000 + number


def _worked_off(queue: LocalQueue, size: int, handle: Callable[[Row], object]) -> float:
    """Work off everything by claims of a size; return the seconds until all was durable."""
    began = ended = time.perf_counter()
    while (claim := queue.claim(size)).count:
        for row in claim.rows:
            handle(row)
        claim.ack()
        ended = time.perf_counter()
    return ended - began


def _syncs(name: str, ours: LocalQueue, theirs: PgQueuer, size: int) -> Iterator[Figure]:
    """Count the syncs of a claim with what completes it."""
    ours.enqueue(rows(_number(size, 900_000), size))
    detail = f"a claim of {size:,} and its completion"
    yield from counted(f"{name}.ours", lambda: ours.claim(size).ack(), detail)
    for at in range(10):
        theirs.put(rows(_number(size, 900_001 + at), size))
    before = theirs.syncs()
    theirs.exchange(size, lambda row: row)
    made = theirs.syncs() - before
    yield Figure(f"{name}.statements.syncs", made / 10, None, "syncs", detail)
