"""Progress of a command, on standard error of a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column

from spark_queue.cli import show_counts, words
from spark_queue.cli.display import Display

if TYPE_CHECKING:
    from spark_queue.ingest.run import Progress as Step
    from spark_queue.processing.loop import ProcessResult

_WORDS = {
    "discover": "finding files",
    "enqueue": "enqueueing",
    "process": "reading files",
    "summarise": "summing up",
}

#: Items a second, from where on tenths are noise.
_FAST = 100

#: How a result counts claimed items.
SETTLED = ("acked", "failed", "deferred", "released", "dead")


@contextmanager
def progress_bar(display: Display) -> Iterator[Callable[[Step], None]]:
    """Show a bar while the block runs, unless with ``--json`` or without a terminal."""
    with _progress_bar(display, BarColumn(), MofNCompleteColumn()) as progress:
        task = progress.add_task("starting Spark", total=None)

        def update(step: Step) -> None:
            progress.update(
                task,
                description=_WORDS[step.phase],
                completed=step.done,
                total=step.total or None,
            )

        yield update


@contextmanager
def claim_progress(
    display: Display, count: Callable[[], int], *, each: bool
) -> Iterator[Callable[[ProcessResult], None]]:
    """Show how far processing is, while the block runs.

    Parameters
    ----------
    display : Display
        Where to show it; without an eye on it, nothing moves.
    count : callable
        Returns how many items are not finished; asked only if it is shown.
    each : bool
        Also print the result of each claim on standard output: a JSON object with ``--json``.
    """
    with _progress_bar(display) as progress:
        total = 0 if progress.disable else count()
        task = progress.add_task(standing(None, total, 0.0), total=total or None)
        started, before = time.monotonic(), dict.fromkeys(SETTLED, 0)

        def show(result: ProcessResult) -> None:
            if each:
                _tell(display, _of_claim(result, before))
            said = standing(result, total, time.monotonic() - started)
            progress.update(task, description=said, completed=result.acked + result.dead)

        yield show


def standing(result: ProcessResult | None, total: int, seconds: float) -> str:
    """Return the progress: claims, items a second, problems, and the time left.

    Parameters
    ----------
    result : ProcessResult, optional
        What came of the claims so far; ``None`` before the first.
    total : int
        How many items were not finished when it began.
    seconds : float
        How long it has run.
    """
    if result is None or seconds <= 0:
        return f"{words.plural(total, 'item')} to do"
    finished = result.acked + result.dead
    rate = finished / seconds
    speed = f"{rate:,.0f}" if rate >= _FAST else f"{rate:.1f}"
    parts = [f"{finished:,}/{total:,} items", f"{speed} items/s"]
    if rate and finished < total:
        parts.append(f"{words.duration((total - finished) / rate)} left")
    wrong = ("dead", "failed", "deferred")
    parts += [f"{getattr(result, n):,} {n}" for n in wrong if getattr(result, n)]
    return ", ".join([*parts, words.plural(result.claims, "claim")])


def _of_claim(result: ProcessResult, before: dict[str, int]) -> dict[str, Any]:
    """Return a result's increase by the last claim, and remember where it ended."""
    now = {name: getattr(result, name) for name in SETTLED}
    counts = {name: now[name] - before[name] for name in SETTLED}
    before.update(now)
    return {"claim": result.claims, **counts, "seconds": result.seconds}


def _tell(display: Display, claim: dict[str, Any]) -> None:
    if display.json:
        display.line(claim)
    else:
        # Written so, and not by a console of its own, it comes to stand above what moves.
        sys.stdout.write(show_counts.claim_line(claim) + "\n")
        sys.stdout.flush()


def _progress_bar(display: Display, *columns: ProgressColumn) -> Progress:
    console = display.screen()
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold")),
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        # What goes to a file is not for the screen; on the screen it is printed above the bar.
        redirect_stdout=sys.stdout.isatty(),
        disable=console.quiet,
    )
