"""Commands that only read: status, stats, dead, explain, history.

They take no lock.
"""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from spark_queue.cli.command import Name, ReaderOption, looking
from spark_queue.cli.scope import Scope
from spark_queue.cli.shown import show_counts, show_items
from spark_queue.cli.shown.plain import plain
from spark_queue.cli.shown.times import AsOfOption, read_as_of
from spark_queue.errors import InvalidArgumentError

_Limit = Annotated[int, Option(min=0, help="Items to show.")]
_Seq = Annotated[int, Argument(help="The number of the item.")]


@looking
def status(
    scope: Scope,
    name: Name,
    where: Annotated[str | None, Option(help="Only these: a SQL predicate.")] = None,
    limit: _Limit = 20,
    as_of: AsOfOption = None,
    reader: ReaderOption = None,
) -> None:
    """Show how many items are in which state, and the first of them, what went wrong first."""
    past = read_as_of(as_of)
    engine, queue = scope.open_queue(name, reader)
    at, seen = engine.status(queue, past, where, limit)
    paused = past is None and queue.paused
    shown = {"queue": queue.name, "at": at.isoformat(), "paused": paused, **seen}
    scope.display.show(shown, *show_items.status(shown))


@looking
def stats(
    scope: Scope,
    name: Name,
    limit: Annotated[int, Option(min=0, help="Keys to show.")] = 100,
    as_of: AsOfOption = None,
    reader: ReaderOption = None,
) -> None:
    """Show counts per state and per key, waiting times, and the age of the oldest item."""
    past = read_as_of(as_of)
    engine, queue = scope.open_queue(name, reader)
    shown = engine.stats(queue, past, limit)
    scope.display.show(shown, *show_counts.stats(shown))


@looking
def dead(
    scope: Scope,
    name: Name,
    where: Annotated[str | None, Option(help="Only these: a SQL predicate.")] = None,
    limit: _Limit = 100,
    as_of: AsOfOption = None,
    reader: ReaderOption = None,
) -> None:
    """Show the dead letters: items that failed for good, with their last error."""
    past = read_as_of(as_of)
    engine, queue = scope.open_queue(name, reader)
    count, letters = engine.dead(queue, past, where, limit)
    shown = {"queue": queue.name, "count": count, "items": letters}
    scope.display.show(shown, *show_items.dead(shown, where))


@looking
def explain(scope: Scope, name: Name, seq: _Seq, reader: ReaderOption = None) -> None:
    """Say why an item is not running."""
    shown = plain(scope.open_queue(name, reader)[1].explain(seq))
    scope.display.show(shown, *show_items.explanation(shown))


@looking
def history(scope: Scope, name: Name, seq: _Seq, reader: ReaderOption = None) -> None:
    """Show what happened to an item, oldest first."""
    queue = scope.open_queue(name, reader)[1]
    found = plain(queue.history(seq))
    if not found:
        raise InvalidArgumentError(f"seq is {seq}: queue {queue.name!r} has no such item")
    shown = {"queue": queue.name, "seq": seq, "transitions": found}
    scope.display.show(shown, *show_items.history(shown))
