"""``spark-queue ingest``: put the files below a directory through a queue."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table
from typer import Argument, Option

from spark_queue.cli.command import command
from spark_queue.cli.display import Whole
from spark_queue.cli.progress import progress_bar
from spark_queue.cli.scope import Scope
from spark_queue.errors import InvalidArgumentError
from spark_queue.wording import plural, shell_command

if TYPE_CHECKING:
    from spark_queue.ingest.run import IngestSummary, TypeSummary

#: Media types that have a line of their own; the rest share one.
_TYPES = 10

#: Counts of the files of a type.
_COUNTS = ("files", "bytes")


@command
def ingest(
    scope: Scope,
    source: Annotated[Path, Argument(help="The directory whose files to read.")],
    queue: Annotated[str, Option(help="Path or name of the queue; made where missing.")],
    output: Annotated[str, Option(help="Path or name of the Delta table to write to.")],
    exclude: Annotated[
        list[str] | None,
        Option(
            help="Leave out files and directories of such a name: '*.pyc'; with a / of such a path "
            "below SOURCE. May be given again."
        ),
    ] = None,
    limit: Annotated[int, Option(min=1, help="Files that one claim takes.")] = 50_000,
    *,
    follow_links: Annotated[
        bool, Option("--follow-links", help="Look into linked directories, each once.")
    ] = False,
) -> None:
    """Read every file below SOURCE once, and write a row for each to a Delta table.

    Start it again after a crash, or when files were added or changed: each version of a file is in
    the table exactly once. Files that cannot be read are in the dead letters of the queue.
    """
    if not source.is_dir():
        raise InvalidArgumentError(f"source {str(source)!r} is not a directory")
    with progress_bar(scope.display) as bar:
        spark = scope.spark
        from spark_queue.ingest import ingest as run  # noqa: PLC0415 - as above, after Spark

        files_queue, facts = scope.locate(queue), scope.locate(output)
        done = scope.interruptible(
            lambda stop: run(
                spark,
                source,
                files_queue,
                facts,
                exclude=exclude or (),
                follow_links=follow_links,
                limit=limit,
                stop=stop,
                on_progress=bar,
            )
        )
    # Where nothing was to be done, the line says so.
    tables = [_table(done.types)] if done.processed + done.dead else []
    scope.display.show(done, *tables, _line(done), *_next(queue, output, done))


def _table(types: Sequence[TypeSummary]) -> Table:
    """Return the files by type."""
    table = Table(show_footer=True)
    table.add_column("media type", footer="all", overflow="fold")
    for name, total in zip(_COUNTS, _totals(types), strict=True):
        table.add_column(name, justify="right", footer=total)
    for one in types[:_TYPES]:
        table.add_row(one.media_type or "(unknown)", *_totals([one]))
    if rest := types[_TYPES:]:
        table.add_row(f"({len(rest)} more)", *_totals(rest))
    return table


def _totals(types: Sequence[TypeSummary]) -> list[str]:
    return [f"{sum(getattr(one, name) for one in types):,}" for name in _COUNTS]


def _line(done: IngestSummary) -> str:
    waiting = f", {done.waiting:,} still to read" if done.waiting else ""
    return (
        f"{plural(done.discovered, 'file')} found, {done.inserted:,} new or changed; "
        f"{done.processed:,} read, {done.dead:,} unreadable{waiting}, in {done.seconds:.1f} s"
    )


def _next(queue: str, out: str, done: IngestSummary) -> list[str]:
    """Return the next commands to try, as lines to paste."""
    verbs = ["stats", "dead"] if done.dead else ["stats"]
    lines = [shell_command(_program(), verb, queue) for verb in verbs]
    return [f"The rows are in {out}. Next:", *(Whole(f"  {line}") for line in lines)]


def _program() -> str:
    """Return how this program was started, as seen from here."""
    started = Path(sys.argv[0])
    if started.name != "spark-queue":
        return "spark-queue"
    with suppress(ValueError):
        return str(started.relative_to(Path.cwd()))
    return "spark-queue"
