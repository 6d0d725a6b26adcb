"""The commands by their names."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import typer
from typer.core import TyperGroup

from spark_queue import __version__
from spark_queue.cli.commands import (
    admin_commands,
    checkup,
    demo,
    ingest,
    item_commands,
    reader_commands,
    replay,
    serving,
    setting_commands,
    stream_commands,
    view_commands,
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
    demo.demo,
    admin_commands.create,
    setting_commands.configure,
    setting_commands.config,
    admin_commands.drop,
    item_commands.enqueue,
    item_commands.process,
    stream_commands.stream_enqueue,
    stream_commands.stream_dispatch,
    replay.replay,
    view_commands.report,
    view_commands.top,
    serving.serve_command,
    view_commands.status,
    view_commands.stats,
    view_commands.dead,
    view_commands.explain,
    view_commands.history,
    checkup.doctor,
    view_commands.metrics,
    reader_commands.readers,
    reader_commands.add_reader,
    reader_commands.drop_reader,
    item_commands.redrive,
    item_commands.cancel,
    item_commands.purge,
    item_commands.undo,
    admin_commands.pause,
    admin_commands.resume,
    admin_commands.maintain,
    admin_commands.add_columns,
    admin_commands.upgrade,
    admin_commands.clone,
)

for _command in _COMMANDS:
    app.command()(_command)


@cache
def command() -> TyperGroup:
    """Return all commands as one, which is made once: that takes longer than most of them."""
    return typer.main.get_group(app)
