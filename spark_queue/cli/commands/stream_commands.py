"""Commands that run streaming queries: rows of a directory into a queue, and a queue worked off."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from spark_queue.cli.choice import Format, absolute, format_of
from spark_queue.cli.command import Name, command
from spark_queue.cli.commands.item_commands import (
    Handler,
    RunOptions,
    load_handler,
    pickle_module,
)
from spark_queue.cli.progress import SETTLED
from spark_queue.cli.scope import Scope
from spark_queue.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from spark_queue.log.step_events import StepFacts
    from spark_queue.processing.loop import ProcessResult

_Checkpoint = Annotated[
    str, Option(help="A directory that is this query's own; it goes on from there.")
]

#: Seconds between two looks at whether a query was told to stop.
_LOOK = 1


@command
def stream_enqueue(
    scope: Scope,
    name: Name,
    files: Annotated[str, Option(help="The directory that the files land in.")],
    checkpoint: _Checkpoint,
    format: Annotated[  # noqa: A002
        Format | None, Option(help="Of the files; by default what their names tell, json of none.")
    ] = None,
    order_by: Annotated[
        str | None, Option(help="The column whose order the rows of a batch enter in.")
    ] = None,
    every: Annotated[
        float | None, Option(help="Seconds between looks; by default once, to the end.")
    ] = None,
) -> None:
    """Add the rows of files that land in a directory, each file's exactly once.

    Files must appear whole: write them elsewhere and move them in. Start it again after a crash,
    with the same checkpoint: no row is lost or added twice.
    """
    # Before Spark is started: it takes a while.
    kind = format or _format_of(files)
    counts: Counter[str] = Counter()
    queue = scope.queue(name, listener=lambda facts: _add(counts, facts))
    if "://" not in files and not Path(files).is_dir():
        raise InvalidArgumentError(f"files {files!r} is not a directory")
    reader = scope.spark.readStream.format(kind.value).schema(queue.schema)
    if kind is not Format.PARQUET:
        # Without this, a value that does not parse is read as null, and enqueued.
        reader = reader.option("mode", "FAILFAST")
    if kind is Format.CSV:
        reader = reader.option("header", True).option("enforceSchema", False)
    query = queue.enqueue_stream(
        reader.load(absolute(files)),
        absolute(checkpoint),
        order_by=order_by,
        trigger=None if every is None else timedelta(seconds=every),
        name=f"enqueue {name}",
    )
    _follow(scope, query, None)
    done = {name: counts[name] for name in ("steps", "inserted", "duplicates")}
    scope.display.show(done)


def _format_of(files: str) -> Format:
    """Return the format of files by their names; JSON where there are none."""
    here = Path(files)
    if (
        "://" in files
        or not here.is_dir()
        or not any(f.name[0] not in "._" for f in here.iterdir())
    ):
        return Format.JSON
    return format_of(files)


@command
def stream_dispatch(
    scope: Scope,
    name: Name,
    handler: Handler,
    checkpoint: _Checkpoint,
    every: Annotated[float, Option(help="Seconds between looks for items.")] = 10.0,
    *,
    once: Annotated[bool, Option("--once", help="Work off what may run, and end.")] = False,
    how: RunOptions,
    time_limit: Annotated[
        float | None, Option(help="Seconds after which it ends; never by default.")
    ] = None,
) -> None:
    """Run a handler for every item that may run, now and whenever items come, until stopped."""
    function = load_handler(handler)
    pickle_module(handler)
    queue = scope.queue(name)
    totals = BatchTotals()
    query = queue.process_stream(
        function,
        absolute(checkpoint),
        trigger=None if once else timedelta(seconds=every),
        name=f"dispatch {name}",
        **how.arguments(scope),
        on_claim=totals,
    )
    _follow(scope, query, time_limit)
    scope.display.show(totals.total())


class BatchTotals:
    """Totals of a query's micro-batches, updated with every claim."""

    def __init__(self) -> None:
        self._over: Counter[str] = Counter()
        self._last: ProcessResult | None = None

    def __call__(self, result: ProcessResult) -> None:
        """Take the result of a micro-batch after one more claim."""
        if self._last is not None and result.claims <= self._last.claims:
            self._over.update(self._counts())
        self._last = result

    def total(self) -> dict[str, int]:
        """Return the counts of all of them."""
        counts = self._over + Counter(self._counts())
        return {name: counts[name] for name in SETTLED}

    def _counts(self) -> dict[str, int]:
        return {name: getattr(self._last, name, 0) for name in SETTLED}


def _add(counts: Counter[str], facts: StepFacts) -> None:
    if facts.action == "enqueue":
        counts.update({"steps": 1, **facts.counts})


def _follow(scope: Scope, query: StreamingQuery, seconds: float | None) -> None:
    """Wait for a query to end; a signal or the end of a time stops it."""

    def wait(stop: threading.Event) -> None:
        left = float("inf") if seconds is None else seconds
        while left > 0 and not stop.is_set() and not query.awaitTermination(timeout=_LOOK):
            left -= _LOOK
        if query.isActive:
            query.stop()

    scope.interruptible(wait)
