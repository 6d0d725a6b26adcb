"""Play random histories in which both planners decide each small step, and report differences.

What the process decides is compared with what Spark's plans decide, row for row, before a step is
committed (``spark.sparkQueue.smallSteps`` is ``verify``). A history is named by its seed: a
difference is found again by ``--histories 1`` with that one.
"""

from __future__ import annotations

import json
import logging
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession

from histories import History
from spark_queue.log.step_events import logger
from spark_queue.session import SMALL_STEPS, SMALL_STEPS_CONF, local_session
from spark_queue.sql.verify import AGREED
from spark_queue.state import replica, replica_choice

app = typer.Typer(add_completion=False)


@dataclass
class Report:
    """What was played, and what came out."""

    histories: int = 0
    steps: int = 0
    """Commands given."""
    compared: Counter[str] = field(default_factory=Counter)
    """Steps on which both planners agreed, by kind."""
    differences: list[dict[str, Any]] = field(default_factory=list)
    """Seed, error and commands of each history that ended early."""

    def add(self, history: History, failure: Exception | None) -> None:
        """Note how a history went."""
        self.histories += 1
        self.steps += len(history.done)
        if failure is not None:
            told = "".join(traceback.format_exception_only(failure)).strip()
            self.differences.append({"seed": history.seed, "why": told, "done": history.done})


@app.command()
def main(
    histories: Annotated[int, typer.Option(min=1, help="How many histories to play.")] = 100,
    steps: Annotated[int, typer.Option(min=1, help="Commands of each.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the first history; 0 draws one.")] = 0,
    minutes: Annotated[float, typer.Option(help="No further history after so many.")] = 600.0,
    *,
    in_windows: Annotated[
        bool, typer.Option("--in-windows", help="Only a handful of items is in memory.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Play histories, and fail where the planners differ."""
    if in_windows:
        shrink_windows()
    first = seed or random.SystemRandom().randrange(1, 1 << 31)
    started = time.monotonic()
    spark = local_session("equivalence", quiet=True, **SMALL_STEPS_CONF)
    report = Report()
    with counted(report.compared), _folder() as place:
        for number in range(first, first + histories):
            play(spark, place, number, steps, report)
            if time.monotonic() - started > 60 * minutes:
                break
    spark.stop()
    _print(first, report, time.monotonic() - started, as_json=as_json)
    raise typer.Exit(1 if report.differences else 0)


def shrink_windows() -> None:
    """Let what is in memory be a window of a handful of items, for the rest of this process."""
    for module, name, value in (
        (replica_choice, "_NEAR", 1),
        (replica_choice, "_GROWS", 2),
        (replica_choice, "_AHEAD", 5),
        (replica, "_NEXT", 2),
    ):
        setattr(module, name, value)


def play(spark: SparkSession, place: str, seed: int, steps: int, report: Report) -> None:
    """Play one history under both planners, and add it to a report."""
    spark.conf.set(SMALL_STEPS, "verify")
    history = History(spark, f"{place}/{seed}", seed)
    failure = None
    try:
        history.play(steps)
    except Exception as exc:  # noqa: BLE001 - whatever ends a history is found in it again
        failure = exc
    report.add(history, failure)
    history.close()


@contextmanager
def counted(into: Counter[str]) -> Iterator[None]:
    """Count the steps on which both planners agree, by kind."""
    tally = _Tally(into)
    level = logger.level
    logger.addHandler(tally)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(tally)


class _Tally(logging.Handler):
    def __init__(self, into: Counter[str]) -> None:
        super().__init__(logging.DEBUG)
        self._into = into

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg == AGREED and isinstance(record.args, tuple):
            self._into[str(record.args[1])] += 1


@contextmanager
def _folder() -> Iterator[str]:
    shared = Path("/dev/shm")  # noqa: S108 - tables in memory, where the machine has such a disk
    place = tempfile.mkdtemp(prefix="equivalence-", dir=shared if shared.is_dir() else None)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _print(seed: int, report: Report, seconds: float, *, as_json: bool) -> None:
    facts: dict[str, Any] = {
        "seed": seed,
        "histories": report.histories,
        "steps": report.steps,
        "compared": dict(report.compared),
        "differences": report.differences,
        "seconds": round(seconds, 1),
        "seconds_a_history": round(seconds / report.histories, 1),
    }
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        typer.echo(f"{name}: {value}")


if __name__ == "__main__":
    sys.exit(app())
