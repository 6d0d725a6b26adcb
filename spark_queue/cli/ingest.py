"""``spark-queue ingest``: put the files below a directory through a queue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from spark_queue.cli.progress import progress_bar
from spark_queue.cli.scope import Json, Verbose, command
from spark_queue.errors import InvalidArgumentError

if TYPE_CHECKING:
    from spark_queue.ingest.summary import IngestSummary, TenantSummary

_COUNTS = ("discovered", "inserted", "known", "processed", "dead", "waiting")


def ingest(
    ctx: typer.Context,
    source: Annotated[Path, typer.Argument(help="The directory whose files to read.")],
    queue: Annotated[str, typer.Option(help="Path or name of the queue; made where missing.")],
    out: Annotated[str, typer.Option(help="Path or name of the Delta table to write to.")],
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            help="Leave out files and directories of such a name: '*.pyc'; with a / of such a path "
            "below SOURCE. May be given again."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Files that one claim takes.")] = 50_000,
    *,
    follow_links: Annotated[
        bool, typer.Option("--follow-links", help="Look into linked directories, each once.")
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Read every file below SOURCE once, and write a row for each to a Delta table.

    Start it again after a crash, or when files were added or changed: each version of a file is in
    the table exactly once. Files that cannot be read are in the dead letters of the queue.
    """
    with command(ctx, json=json, verbose=verbose) as scope:
        if not source.is_dir():
            raise InvalidArgumentError(f"source {str(source)!r} is not a directory")
        with progress_bar(scope.terminal) as bar:
            spark = scope.spark
            from spark_queue.ingest import ingest as run  # noqa: PLC0415 - as above, after Spark

            files_queue, facts = scope.placed(queue), scope.placed(out)
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
        scope.terminal.show(done, _table(done), _line(done))


def _table(done: IngestSummary) -> Table:
    table = Table(show_footer=True)
    table.add_column("tenant", footer="all", overflow="fold")
    for name in _COUNTS:
        table.add_column(name, justify="right", footer=f"{getattr(done, name):,}")
    for tenant in done.tenants:
        table.add_row(tenant.tenant or "(top)", *_cells(tenant))
    return table


def _cells(tenant: TenantSummary) -> list[str]:
    return [f"{getattr(tenant, name):,}" for name in _COUNTS]


def _line(done: IngestSummary) -> str:
    return f"{done.processed:,} file(s) read in {done.seconds:.1f} s"
