"""The progress of the main job, as a bar on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from spark_queue.cli.terminal import Terminal

if TYPE_CHECKING:
    from spark_queue.ingest.intake import Progress as Step

_WORDS = {
    "discover": "finding files",
    "enqueue": "enqueueing",
    "process": "reading files",
    "summarise": "summing up",
}


@contextmanager
def progress_bar(terminal: Terminal) -> Iterator[Callable[[Step], None]]:
    """Show a bar while the block runs; nothing with ``--json`` or where nobody watches."""
    console = Console(stderr=True)
    quiet = terminal.json or not console.is_terminal
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        task = progress.add_task("starting Spark", total=None)

        def update(step: Step) -> None:
            progress.update(
                task,
                description=_WORDS[step.phase],
                completed=step.done,
                total=step.total or None,
            )

        yield update
