"""The commands by their names."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import typer
from typer.core import TyperGroup

from spark_queue import __version__
from spark_queue.cli.commands import (
    admin,
    checkup,
    ingest,
    items,
    metrics,
    readers,
    replay,
    reports,
    serving,
    settings,
    streams,
    views,
)

#: Options that had another name once, which is still understood.
_FORMER = {"out": "output"}

app = typer.Typer(
    name="spark-queue",
    help="A work queue for Spark on two Delta tables: distinct, fair by key, serial per group.",
    no_args_is_help=True,
    add_completion=False,
    # An error is one line; its traceback is for --verbose.
    pretty_exceptions_enable=False,
    context_settings={"token_normalize_func": lambda name: _FORMER.get(name, name)},
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - called with the option's value
    if asked:
        typer.echo(f"spark-queue {__version__}")
        raise typer.Exit


@app.callback()
def _whole(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Say what all commands are about; typer shows the text above."""


_COMMANDS = (
    ingest.ingest,
    admin.create,
    settings.configure,
    settings.config,
    admin.drop,
    items.enqueue,
    items.process,
    streams.stream_enqueue,
    streams.stream_dispatch,
    replay.replay,
    reports.report,
    reports.top,
    serving.serve,
    views.status,
    views.stats,
    views.dead,
    views.explain,
    views.history,
    checkup.doctor,
    metrics.metrics,
    readers.readers,
    readers.add_reader,
    readers.drop_reader,
    items.redrive,
    items.cancel,
    items.purge,
    items.undo,
    admin.pause,
    admin.resume,
    admin.maintain,
    admin.add_columns,
    admin.upgrade,
    admin.clone,
)

for _command in _COMMANDS:
    app.command()(_command)


@cache
def command() -> TyperGroup:
    """Return all commands as one, which is made once: that takes longer than most of them."""
    return typer.main.get_group(app)
