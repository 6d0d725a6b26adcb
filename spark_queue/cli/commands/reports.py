"""Commands that show a queue as a whole: report, top. They only read, and take no lock."""

from __future__ import annotations

import time
import webbrowser
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Group
from rich.live import Live
from typer import Option

from spark_queue.cli.command import Name, ReaderOption, looking
from spark_queue.cli.scope import Scope
from spark_queue.cli.shown import show_report
from spark_queue.cli.shown.console import SafeConsole
from spark_queue.cli.shown.times import AsOfOption, read_as_of
from spark_queue.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_queue.report.model import ItemReport, Report

_Window = Annotated[float, Option(help="Seconds before that instant that count as now.")]


@looking
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
    scope.display.show({"html": str(html)}, f"written to {html}")
    if open:
        webbrowser.open(html.absolute().as_uri())


@looking
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
    engine, queue = scope.open_queue(name, reader)
    look = engine.reports(queue, timedelta(seconds=window))
    # An interrupt is the usual end of it.
    with suppress(KeyboardInterrupt):
        if scope.display.json:
            _repeat(lambda: scope.display.line(look().as_dict()), every, looks)
            return
        with Live(console=SafeConsole(), auto_refresh=False) as live:
            _repeat(
                lambda: live.update(Group(*show_report.live(look())), refresh=True), every, looks
            )


def _repeat(show: Callable[[], None], every: float, looks: int | None) -> None:
    """Show something so many times, or until it is interrupted."""
    seen = 0
    while looks is None or seen < looks:
        if seen:
            time.sleep(every)
        show()
        seen += 1
