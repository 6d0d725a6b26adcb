"""Commands that only read: status, stats, dead, explain, history.

They take no lock.
"""

from __future__ import annotations

import time
import webbrowser
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.live import Live
from typer import Argument, Option

from spark_queue.cli import show_counts, show_report
from spark_queue.cli.command import AsOfOption, Name, ReaderOption, command, read_as_of
from spark_queue.cli.display import Exit, SafeConsole, Whole
from spark_queue.cli.scope import Scope
from spark_queue.cli.scrolling import ScrolledScreen, reading_keys, wait_for_look
from spark_queue.cli.words import plain
from spark_queue.errors import InvalidArgumentError
from spark_queue.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_queue.metrics.metric_samples import AnyQueue
    from spark_queue.report.model import ItemReport, Report

_Limit = Annotated[int, Option(min=0, help="Items to show.")]
_Seq = Annotated[int, Argument(help="The number of the item.")]


@command
def status(
    scope: Scope,
    name: Name,
    where: Annotated[str | None, Option(help="Only these: a SQL predicate.")] = None,
    limit: _Limit = 20,
    as_of: AsOfOption = None,
    reader: ReaderOption = None,
) -> None:
    """Show how a queue does, how many items are in which state, and what went wrong first."""
    from spark_queue.cli import views  # noqa: PLC0415 - help works without Arrow

    past, queue = read_as_of(as_of), scope.open_queue(name, reader)[1]
    at, counts, items = views.items(queue, past, where, limit, views.SHOWN)
    seen, kept = views.condition(queue, past)
    shown = {"queue": queue.name, "at": at, "condition": plain(seen), **counts}
    shown = {**shown, "paused": seen.word == "PAUSED", "kept_back": list(kept), "items": items}
    scope.display.show(shown, *show_counts.status(shown, str(seen)))


@command
def stats(
    scope: Scope,
    name: Name,
    limit: Annotated[int, Option(min=0, help="Keys to show.")] = 100,
    as_of: AsOfOption = None,
    reader: ReaderOption = None,
) -> None:
    """Show counts per state and per key, waiting times, and the age of the oldest item."""
    from spark_queue.cli import views  # noqa: PLC0415 - help works without Arrow

    past, queue = read_as_of(as_of), scope.open_queue(name, reader)[1]
    shown = views.stats(queue, past, limit)
    scope.display.show(shown, *show_counts.stats(shown))


@command
def dead(
    scope: Scope,
    name: Name,
    where: Annotated[str | None, Option(help="Only these: a SQL predicate.")] = None,
    limit: _Limit = 100,
    as_of: AsOfOption = None,
    reader: ReaderOption = None,
) -> None:
    """Show the dead letters: items that failed for good, with their last error."""
    from spark_queue.cli import views  # noqa: PLC0415 - help works without Arrow

    past, queue = read_as_of(as_of), scope.open_queue(name, reader)[1]
    _, counts, letters = views.items(queue, past, where, limit, views.LETTER, dead=True)
    shown = {"queue": queue.name, "count": sum(counts["states"].values()), "items": letters}
    scope.display.show(shown, *show_counts.dead(shown, where))


@command
def explain(scope: Scope, name: Name, seq: _Seq, reader: ReaderOption = None) -> None:
    """Say why an item is not running, and when a claim may come to it."""
    queue = scope.open_queue(name, reader)[1]
    found = queue.report_item(seq)
    if not found.history:
        raise InvalidArgumentError(f"seq is {seq}: queue {queue.name!r} has no such item")
    shown = {**plain(found.chain[0]), "place": plain(found.place)}
    scope.display.show(shown, *show_counts.explanation(shown, found.place))


@command
def wait(
    scope: Scope,
    name: Name,
    where: Annotated[
        str, Option(help="For which: a SQL predicate over columns that do not change.")
    ] = "true",
    timeout: Annotated[
        float | None, Option(min=0, help="Seconds to wait at most; 0 only looks.")
    ] = None,
    as_of: Annotated[
        str | None,
        Option(help="For those that lived then: a step of the status log, or an ISO time."),
    ] = None,
    reader: ReaderOption = None,
) -> None:
    """Wait for the end of all live items; later ones do not count.

    The exit code is 0 once all have ended, and 1 where some are dead or expired, or the time is
    over: --json names which as "outcome": done, failed, or timeout.
    """
    queue = scope.open_queue(name, reader)[1]
    waited = queue.wait(where, timeout, as_of=read_as_of(as_of))
    outcome = "timeout" if waited.left else "failed" if waited.failed else "done"
    shown = {"queue": queue.name, "outcome": outcome, "left": waited.left, "states": waited.states}
    scope.display.show(shown, *show_counts.wait_result(shown))
    if not waited:
        raise typer.Exit(int(Exit.FAILED))


@command
def history(scope: Scope, name: Name, seq: _Seq, reader: ReaderOption = None) -> None:
    """Show what happened to an item, oldest first."""
    queue = scope.open_queue(name, reader)[1]
    found = plain(queue.history(seq))
    if not found:
        raise InvalidArgumentError(f"seq is {seq}: queue {queue.name!r} has no such item")
    shown = {"queue": queue.name, "seq": seq, "transitions": found}
    scope.display.show(shown, *show_counts.history(shown))


@command
def metrics(
    scope: Scope,
    name: Name,
    textfile: Annotated[
        Path | None, Option(help="Where to write them, whole; standard output if nowhere.")
    ] = None,
    keys: Annotated[int, Option(help="How many fair keys are shown one by one.")] = 20,
    window: Annotated[
        float, Option(help="How many seconds before now count, in waits and failures.")
    ] = 3600.0,
) -> None:
    """Print the metrics of a queue in the text format of Prometheus."""
    # Help works without Arrow.
    from spark_queue.metrics import metric_samples  # noqa: PLC0415

    queue = cast("AnyQueue", scope.open_queue(name)[1])
    found = metric_samples.samples(queue, keys=keys, window=timedelta(seconds=window))
    if textfile is None:
        plain = [
            {"name": one.metric.prometheus, "labels": dict(one.labels), "value": one.value}
            for one in found
        ]
        lines = metric_samples.text(found).rstrip().split("\n")
        scope.display.show({"samples": plain}, *map(Whole, lines))
        return
    count = metric_samples.write(found, textfile)
    said = Whole(f"{plural(count, 'sample')} written to {textfile}")
    scope.display.show({"textfile": str(textfile), "samples": count}, said)


_Window = Annotated[float, Option(help="Seconds before that instant that count as now.")]


@command
def report(
    scope: Scope,
    name: Name,
    item: Annotated[
        int | None, Option(help="Only this item: what happened to it, and what it waits for.")
    ] = None,
    as_of: AsOfOption = None,
    window: _Window = 3600.0,
    reader: ReaderOption = None,
    html: Annotated[
        Path | None, Option(help="Write it to this file, as a page that needs no network.")
    ] = None,
    *,
    open: Annotated[bool, Option("--open", help="Show that page in a browser.")] = False,  # noqa: A002
) -> None:
    """Say what waits and why, what fails and since when, who holds what, and who did what."""
    if open and html is None:
        raise InvalidArgumentError("open needs a page to show: name its file with --html")
    queue, past = scope.open_queue(name, reader)[1], read_as_of(as_of)
    shown: Report | ItemReport
    if item is None:
        shown = queue.report(past, timedelta(seconds=window))
        parts = show_report.report(shown)
    else:
        shown = queue.report_item(item, past)
        parts = show_report.item(shown)
    if html is None:
        scope.display.show(shown.as_dict(), *parts)
        return
    html.write_text(shown.html(), encoding="utf-8")
    scope.display.show({"html": str(html)}, Whole(f"written to {html}"))
    if open:
        webbrowser.open(html.absolute().as_uri())


@command
def top(
    scope: Scope,
    name: Name,
    every: Annotated[float, Option(min=0.2, help="Seconds from one look to the next.")] = 2.0,
    looks: Annotated[
        int | None, Option(min=1, help="How often it is looked at; until Ctrl-C if not given.")
    ] = None,
    window: _Window = 3600.0,
    reader: ReaderOption = None,
) -> None:
    """Show a queue as it changes; with --json an object on a line for each look."""
    from spark_queue.cli import views  # noqa: PLC0415 - help works without Arrow

    queue = scope.open_queue(name, reader)[1]
    look = views.reports(queue, timedelta(seconds=window))
    # An interrupt is the usual end of it.
    with suppress(KeyboardInterrupt):
        if scope.display.json:
            _repeat(lambda: scope.display.line(look().as_dict()), every, looks)
            return
        _show_live(look, every, looks)


def _show_live(look: Callable[[], Report], every: float, looks: int | None) -> None:
    """Show a report as it changes, on a screen that keys scroll."""
    screen, seen = ScrolledScreen(), 0
    with (
        reading_keys() as wait,
        Live(screen, console=SafeConsole(), auto_refresh=False) as live,
    ):
        while looks is None or seen < looks:
            if seen and not wait_for_look(screen, wait, every, live.refresh):
                return
            screen.parts = show_report.live(look())
            live.refresh()
            seen += 1


def _repeat(show: Callable[[], None], every: float, looks: int | None) -> None:
    """Show something so many times, or until it is interrupted."""
    seen = 0
    while looks is None or seen < looks:
        if seen:
            time.sleep(every)
        show()
        seen += 1
