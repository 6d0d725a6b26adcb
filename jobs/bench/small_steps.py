"""Measure steps of ten rows: seconds of waiting and of both processors' work, by kind of step.

Run it as shipped and with ``--tuned``, and with ``--planner spark`` to see what it would be on a
shared store, on an idle machine, and compare. The work is that of the driver's JVM and of this
process, as Linux counts it; no step here starts a worker of Python.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from spark_queue import DeltaQueue, QueueConfig
from spark_queue.session import SMALL_STEPS, SMALL_STEPS_CONF, local_session

SCHEMA = "path string, tenant string, folder string"
CONFIG = QueueConfig(dedup_key="path", fair_key="tenant", group_key="folder")
ROWS = 10

app = typer.Typer(add_completion=False)


@dataclass
class Meter:
    """What each kind of step took: a pair of seconds for each time that it was made."""

    taken: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    work: Callable[[], float] = field(default_factory=lambda: worked)
    """How much processors have worked by now; what is below this process counts, too."""

    def time(self, name: str, step: Callable[[], Any]) -> Any:
        """Make a step, and keep what it took."""
        # Looking at all processes takes longer than a small step: it is no part of the wait.
        work, began = self.work(), time.perf_counter()
        done = step()
        waited = time.perf_counter() - began
        self.taken.setdefault(name, []).append((waited, self.work() - work))
        return done

    def waits(self, name: str) -> list[float]:
        """Return the seconds of waiting for each step of a kind."""
        return [wait for wait, _ in self.taken[name]]

    def works(self, name: str) -> list[float]:
        """Return the seconds that processors worked in each step of a kind."""
        return [work for _, work in self.taken[name]]

    def table(self) -> Table:
        """Return the first and the median of each kind."""
        table = Table("step", "times", "first, s", "median, s", "first, CPU s", "median, CPU s")
        for name, pairs in self.taken.items():
            waits, works = zip(*pairs, strict=True)
            figures = (waits[0], median(waits), works[0], median(works))
            table.add_row(name, str(len(pairs)), *(f"{figure:.2f}" for figure in figures))
        return table


@app.command()
def main(
    *,
    tuned: Annotated[bool, typer.Option(help="A session tuned for small steps.")] = False,
    planner: Annotated[str, typer.Option(help="Who decides: memory or spark.")] = "memory",
    repeats: Annotated[int, typer.Option(min=1, help="How often each step is made.")] = 10,
) -> None:
    """Print a table: what a session, a queue, and steps of ten rows take."""
    meter = Meter()
    spark = meter.time("session", lambda: _session(tuned=tuned))
    spark.conf.set(SMALL_STEPS, planner)
    with tempfile.TemporaryDirectory(prefix="small-steps-") as root:
        for number in range(3):
            queue = meter.time("create", partial(_made, spark, f"{root}/{number}"))
        for number in range(repeats):
            meter.time("enqueue", partial(queue.enqueue, _frame(spark, number)))
            claim = meter.time("claim", partial(queue.claim, ROWS))
            meter.time("items", claim.items.collect)
            meter.time("ack", claim.ack)
    spark.stop()
    Console().print(meter.table())


def _session(*, tuned: bool) -> SparkSession:
    return local_session("small steps", quiet=True, **(SMALL_STEPS_CONF if tuned else {}))


def _made(spark: SparkSession, path: str) -> DeltaQueue:
    return DeltaQueue.create(spark, path, SCHEMA, CONFIG)


def _frame(spark: SparkSession, number: int) -> Any:
    rows = [(f"p{number}-{i}", f"t{i % 3}", f"f{i}") for i in range(ROWS)]
    return spark.createDataFrame(rows, SCHEMA)


def worked() -> float:
    """Return the seconds that processors worked for this process and for the servers below it."""
    return time.process_time() + sum(map(_seconds_of, servers()))


def worked_below() -> float:
    """Return the seconds that processors worked for this process and for all below it.

    Those that have ended count, too: the workers of Python that Spark starts come and go.
    """
    ticks = sum(stat.ticks + stat.ended for stat in _below())
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def servers() -> list[int]:
    """Return the ids of the JVMs and the processes of PostgreSQL that this process has started."""
    return [stat.pid for stat in _below() if stat.name in ("java", "postgres")]


def _below() -> list[_Stat]:
    stats = [_stat(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()]
    known = {stat.pid: stat for stat in stats if stat is not None}
    mine = os.getpid()
    return [stat for pid, stat in known.items() if pid != mine and _is_below(pid, known)]


@dataclass(frozen=True)
class _Stat:
    pid: int
    name: str
    parent: int
    ticks: int
    ended: int
    """Ticks of its children that have ended."""


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 1 :].split()
    used, of_ended = (int(rest[at]) + int(rest[at + 1]) for at in (11, 13))
    return _Stat(pid, name, int(rest[1]), used, of_ended)


def _is_below(pid: int, stats: dict[int, _Stat]) -> bool:
    while pid in stats and pid != os.getpid():
        pid = stats[pid].parent
    return pid == os.getpid()


def _seconds_of(pid: int) -> float:
    stat = _stat(pid)
    return 0.0 if stat is None else stat.ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(app())
