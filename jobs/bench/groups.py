"""Measure what `process` writes and takes where groups are deep and items fail.

A claim takes as many items of a group as earlier claims taught. Beside it stand runs of fixed
lengths, in turns: ``rows`` is rows of status an item, ``time`` is over the best fixed length, and
``claims`` over its claims. Without Spark time is that of the processor: others do not disturb it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Annotated, Any
from unittest.mock import patch

import pyarrow as pa
import typer

from report import Figure, Target, at_most, measure, ratio_figure, rounds
from spark_queue import DeltaQueue, LocalQueue, QueueConfig, RetryPolicy, StepFacts
from spark_queue.commands.claims import new_claim_id
from spark_queue.processing.claim_length import ClaimLength
from spark_queue.session import local_session
from spark_queue.state.request import Request

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

SCHEMA = "n long, fails int, grp string"

#: Items of one claim, as in a session; without one the default is lower.
_LIMIT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Items that are worked off, and what is expected of that."""

    items: pa.Table
    """How often each item fails, and its group."""
    delay: timedelta = timedelta(0)
    lease: timedelta = timedelta(minutes=5)
    takes: float = 0.0
    """Seconds of work on an item."""
    lengths: tuple[int, ...] = (25, 50, 100, 200, 400)
    rows: Target | None = None
    time: Target | None = None


def items(*groups: tuple[int, int, int]) -> pa.Table:
    """Make items of groups, each of a depth, of which each so-many-th item fails so many times."""
    found = [
        (n, times if every and n % every == every - 1 else 0, f"group {number}")
        for number, (depth, every, times) in enumerate(groups)
        for n in range(depth)
    ]
    names = SCHEMA.replace(",", "").split()[::2]
    return pa.table(dict(zip(names, map(list, zip(*found, strict=True)), strict=True)))


CASES: dict[str, Callable[[], Case]] = {
    "fiftieth": lambda: Case(items=items((3_000, 50, 1)), rows=at_most(6), time=at_most(1.2)),
    "thrice": lambda: Case(items=items((3_000, 50, 3))),
    "mixed": lambda: Case(items=items((3_000, 50, 1), *[(3, 0, 0)] * 3_000)),
    "health": lambda: Case(
        items=items(*((500, every, 1) for every in (0, 0, 300, 200, 100, 50, 20, 10, 5, 2)))
    ),
    "whole": lambda: Case(items=items((10_000, 0, 0)), lengths=(10_000,), time=at_most(1.2)),
    "twenty": lambda: Case(items=items(*[(500, 0, 0)] * 20), lengths=(500,), time=at_most(1.2)),
    "blocked": lambda: Case(items=items((1_000, 50, 1)), delay=timedelta(seconds=0.1)),
    "slow": lambda: Case(
        items=items((1_500, 0, 0)), takes=0.01, lease=timedelta(seconds=3), lengths=(50, 100, 1_500)
    ),
}


@dataclass(slots=True)
class Rows:
    """A listener that counts rows of status, and claims."""

    written: int = 0
    claims: int = 0

    def __call__(self, facts: StepFacts) -> None:
        """Count the rows of a step."""
        if facts.log == "status":
            # A renewal is one row, however many items it is for.
            self.written += 1 if facts.action == "renew" else sum(facts.counts.values())
            self.claims += facts.action in {"claim", "settle and claim"}


@dataclass(frozen=True, slots=True)
class Runner:
    """A process of cases, with a session of Spark or without."""

    spark: Any = None

    def taken(self, case: Case, length: int | None) -> tuple[float, Rows]:
        """Work a case off by runs of a fixed or the learnt length; return its time and rows."""
        rows, now = Rows(), time.process_time if self.spark is None else time.perf_counter
        retry = RetryPolicy(backoff="fixed", delay=case.delay)
        config = QueueConfig(group_key="grp", retry=retry, lease=case.lease)
        with tempfile.TemporaryDirectory() as root, _fixed(length):
            queue = self._made(f"{root}/queue", config, rows)
            queue.enqueue(case.items, order_by="n")
            rows.written = rows.claims = 0
            began = now()
            while not self._is_done(queue, case):
                time.sleep(0.02)
            seconds = now() - began
            queue.close()
        return seconds, rows

    def _made(self, path: str, config: QueueConfig, rows: Rows) -> Any:
        if self.spark is None:
            return LocalQueue.create(path, SCHEMA, config, listener=rows)
        return DeltaQueue.create(self.spark, path, SCHEMA, config, listener=rows)

    def _is_done(self, queue: Any, case: Case) -> bool:
        done = queue.process(partial(_handle, takes=case.takes), limit=_LIMIT)
        return bool(done.stopped == "empty")


def _handle(item: Mapping[str, Any], takes: float) -> None:
    if takes:
        time.sleep(takes)
    if item["_attempts"] < item["fails"]:
        raise ValueError("not yet")


@contextmanager
def _fixed(length: int | None) -> Iterator[None]:
    """Have claims take runs of one length, whatever they learn."""
    if length is None:
        yield
        return

    def request(self: ClaimLength, *_: object, **__: object) -> Request:
        return replace(self._request, claim_id=new_claim_id(), run=length)

    with patch.object(ClaimLength, "request", request):
        yield


def measured(name: str, runner: Runner, count: int) -> Iterator[Figure]:
    """Measure a case by the learnt length and by fixed ones, in turns."""
    case = CASES[name]()
    seen: dict[int | None, Rows] = {}

    def taken(length: int | None) -> float:
        seconds, seen[length] = runner.taken(case, length)
        return seconds

    def per_item(length: int | None) -> float:
        return seen[length].written / len(case.items)

    runner.taken(case, None)
    contenders = {str(length): partial(taken, length) for length in (None, *case.lengths)}
    found = rounds(contenders, count)
    medians = {length: statistics.median(found[str(length)]) for length in case.lengths}
    best = min(medians, key=medians.__getitem__)
    each = ", ".join(f"{n}: {per_item(n):.1f} rows, {medians[n]:.2f} s" for n in medians)
    detail = f"{case.items.num_rows} items; best fixed length {best} ({each})"
    over = seen[None].claims / seen[best].claims
    yield Figure(f"{name}.rows", per_item(None), case.rows, "rows/item", detail)
    yield ratio_figure(f"{name}.time", found["None"], found[str(best)], case.time, detail)
    yield Figure(f"{name}.claims", over, None, "x", f"{seen[None].claims} claims")


@app.command(help=__doc__)
def main(
    only: Annotated[list[str] | None, typer.Option(help="Cases to run; all of them.")] = None,
    count: Annotated[int, typer.Option("--rounds", min=1, help="Rounds in turns.")] = 3,
    *,
    spark: Annotated[bool, typer.Option(help="In a session of Spark.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="No table at the end.")] = False,
    strict: Annotated[bool, typer.Option(help="Fail when a target is missed.")] = False,
) -> None:
    """Measure the cases that were asked for."""
    runner = Runner(local_session(quiet=True) if spark else None)
    sections = {name: partial(measured, name, runner, count) for name in CASES}
    raise typer.Exit(measure(sections, only, as_json=as_json, strict=strict))


if __name__ == "__main__":
    app()
