"""The commands by their names."""

from __future__ import annotations

import typer

from spark_queue.cli import admin, ingest, items, readers, replay, streams, views

app = typer.Typer(
    name="spark-queue",
    help="A work queue for Spark on two Delta tables: distinct, fair by key, serial per group.",
    no_args_is_help=True,
    add_completion=False,
    # An error is one line; its traceback is for --verbose.
    pretty_exceptions_enable=False,
)

_COMMANDS = (
    ingest.ingest,
    admin.create,
    items.enqueue,
    items.process,
    streams.stream_enqueue,
    streams.stream_dispatch,
    replay.replay,
    views.status,
    views.stats,
    views.dead,
    views.explain,
    views.history,
    readers.readers,
    readers.add_reader,
    readers.drop_reader,
    items.redrive,
    items.cancel,
    items.purge,
    admin.pause,
    admin.resume,
    admin.maintain,
)

for _command in _COMMANDS:
    app.command()(_command)
