"""Measure small steps of a durable queue on a local disk, and what they are beside.

A bare commit of the same row, a queue in SQLite and one on PostgreSQL, each with the same promise
when a call returns, and in turns in one run; and what the size of the queue makes of a step. What
needs no Spark starts none. Prints one JSON line for each figure and a table at the end, as
``core.py`` does.

Beside the package and its extra ``spark`` it wants the extra ``bench``, PostgreSQL (Debian:
``postgresql``), and ``strace`` to count syncs; what is not there is named, and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from report import Figure, measure
from steps_bench import Bench, bench
from steps_database import database
from steps_deep import deep
from steps_local import depth, one_row, rates, start, trips
from steps_session import plain, session, shared

SECTIONS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "start": start,
    "one_row": one_row,
    "depth": depth,
    "trips": trips,
    "rates": rates,
    "database": database,
    "session": session,
    "plain": plain,
    "shared": shared,
    "deep": deep,
}


def main(
    only: Annotated[
        list[str] | None, typer.Option(help=f"Measure this: {', '.join(SECTIONS)}; repeatable.")
    ] = None,
    place: Annotated[Path | None, typer.Option(help="A folder on the disk to measure.")] = None,
    rounds: Annotated[int, typer.Option(min=2, help="How often each step is made.")] = 40,
    scale: Annotated[float, typer.Option(min=1e-4, help="How much of the large queues.")] = 1.0,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Ten rounds of a hundredth.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print no table.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on a missed target.")] = False,
) -> None:
    """Compare small steps with what they are beside."""
    count, size = (10, 0.01) if quick else (rounds, scale)
    with bench(place, count, size) as here:
        sections = {name: partial(section, here) for name, section in SECTIONS.items()}
        code = measure(sections, only, as_json=as_json, strict=strict)
    raise typer.Exit(code)


if __name__ == "__main__":
    typer.run(main)
