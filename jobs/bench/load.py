"""Put the queues in memory under load, and check that nothing is lost, repeated or out of order.

Without an argument it lists its tests. Each ends by itself, answers ``--help``, prints what it
measured, and exits with 1 when its check fails. The defaults fit two cores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated

import typer

import load_items
import load_tasks
from crowd import LoadError
from report import Figure, emit, table

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Count = Annotated[int, typer.Option(min=1)]
Seconds = Annotated[float, typer.Option(min=0.0)]
Share = Annotated[float, typer.Option(min=0.0, max=0.9)]


@app.callback(invoke_without_command=True)
def listing(context: typer.Context) -> None:
    """Put the queues in memory under load; without a test, list them."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(figures: Iterable[Figure]) -> None:
    """Run a test for its figures; a check that fails ends the process with 1."""
    try:
        table([emit(figure) for figure in figures])
    except LoadError as error:
        typer.echo(f"failed: {error}", err=True)
        raise typer.Exit(1) from error


@app.command()
def flood(
    writers: Count = 2,
    readers: Count = 2,
    seconds: Seconds = 3.0,
    limit: Count = 10_000,
    poll_share: Share = 0.25,
) -> None:
    """Write and read as fast as possible.

    Every item is read once, in its writer's order. Readers poll, or wait a millisecond; writers
    pause while the queue is half full, so that nothing is dropped.
    """
    run(load_items.flood(writers, readers, seconds, limit, poll_share))


@app.command()
def put(
    threads: Count = 4, puts: Count = 10_000, cycles: Count = 10, limit: Count = 10_000
) -> None:
    """Overfill a queue that drops the oldest.

    What is left are the last items of each thread, without a gap.
    """
    run(load_items.put(threads, puts, cycles, limit))


@app.command()
def timeout(items: Count = 300, interval: Seconds = 0.01, readers: Count = 50) -> None:
    """Let many readers give up again and again.

    They wait between half an interval and one and a half. Every item is still received once.
    """
    run(load_items.timeout(items, interval, readers))


@app.command()
def many_clients(
    items: Count = 100,
    interval: Seconds = 0.01,
    consumers: Count = 100,
    wait: Seconds = 1.0,
    kill_rate: Share = 0.0,
) -> None:
    """Let many consumers wait for few items.

    Some give up with one on its way to them; none is lost.
    """
    run(load_items.many_clients(items, interval, consumers, wait, kill_rate))


@app.command()
def leaky_reader(items: Count = 1_000, leak: Share = 0.01, lease: Seconds = 5.0) -> None:
    """Let a reader forget some of what it claims.

    Each item is done in the end, and once. Nobody waits for leases: the time is the test's own.
    """
    run(load_items.leaky_reader(items, leak, lease))


@app.command()
def writers_reader(
    writers: Count = 3, items: Count = 900, attempts: Count = 9_000, rounds: Count = 10
) -> None:
    """Let writers with a key each meet one reader.

    It gets all items of everybody, each writer's in order.
    """
    run(load_items.writers_reader(writers, items, attempts, rounds))


@app.command()
def batches(
    adders: Count = 3,
    takers: Count = 3,
    elements: Count = 10_000,
    most: Count = 10,
    fail_share: Share = 0.05,
) -> None:
    """Offer the same elements to takers of batches.

    Some batches fail and come back. No element is ever in two hands, and each that was accepted is
    done once.
    """
    run(load_items.batches(adders, takers, elements, most, fail_share))


@app.command()
def million(requests: Count = 1_000_000, producers: Count = 4) -> None:
    """Give each of a million requests the first free gift.

    Every gift is given once, in order.
    """
    run(load_tasks.million(requests, producers))


@app.command()
def hot_group(tasks: Count = 10_000, groups: Count = 1_000, slots: Count = 4) -> None:
    """Hold up one group that stands in front of many.

    All others run meanwhile, the tasks of each in order and one at a time.
    """
    run(load_tasks.hot_group(tasks, groups, slots))


@app.command()
def slots(tasks: Count = 20_000, width: Count = 8) -> None:
    """End tasks in every way there is, and look for lost slots.

    They end by a result, an error, a release, a cancel, an abort, or their time. Afterwards all
    slots can be used at once.
    """
    run(load_tasks.slots(tasks, width))


if __name__ == "__main__":
    sys.exit(app())
