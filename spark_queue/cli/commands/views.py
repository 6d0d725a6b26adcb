"""Commands that only read: status, stats, dead, explain, history.

They take no lock.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from spark_queue.cli.command import Name, ReaderOption, command
from spark_queue.cli.scope import Scope
from spark_queue.cli.shown import show_counts, show_items
from spark_queue.cli.shown.plain import plain, rows
from spark_queue.cli.shown.times import AsOfOption, read_as_of
from spark_queue.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_queue.looking import Looking

_Limit = Annotated[int, Option(min=0, help="Items to show.")]
_Seq = Annotated[int, Argument(help="The number of the item.")]

#: What status shows of an item beside the user's columns.
_SHOWN = (
    "_seq",
    "_state",
    "_attempts",
    "_losses",
    "_enqueued_at",
    "_available_at",
    "_claimed_at",
    "_finished_at",
    "_worker_id",
    "_lease_expires_at",
    "_error",
)


@command
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
    queue = scope.reading(name, reader)
    at = _instant(queue, past)
    items = matching(queue.status(past), where)
    shown = {
        "queue": queue.name,
        "at": at.isoformat(),
        "paused": past is None and queue.paused,
        **_counted(items, at),
        "items": rows(_first(items, at).select(*queue.schema.names, *_SHOWN), limit),
    }
    scope.display.show(shown, *show_items.status(shown))


def _instant(queue: Looking, past: int | datetime | None) -> datetime:
    if isinstance(past, int):
        return queue.instant_of(past)
    return (past or datetime.now(timezone.utc)).astimezone(timezone.utc)


def _counted(items: DataFrame, at: datetime) -> dict[str, Any]:
    """Count items per state, and those of which there is more to say."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - help works without Spark

    notes = _notes(at)
    counted = items.groupBy("_state").agg(
        F.count(F.lit(1)).alias("items"),
        *(F.count_if(F.expr(told)).alias(note) for note, told in notes.items()),
    )
    found = {row["_state"]: row for row in counted.collect()}
    states = {state: row["items"] for state, row in sorted(found.items())}
    return {
        "states": states,
        **{note: sum(row[note] for row in found.values()) for note in notes},
    }


def _notes(at: datetime) -> dict[str, str]:
    now = f"timestamp '{at.isoformat(' ')}'"
    tried = "_attempts + _losses > 0"
    return {
        "lapsed": f"_state = 'claimed' AND _lease_expires_at <= {now}",
        "retrying": f"_state = 'ready' AND {tried}",
        "delayed": f"_state = 'ready' AND NOT {tried} AND _available_at > {now}",
    }


def _first(items: DataFrame, at: datetime) -> DataFrame:
    """Order items: what went wrong, what may, what goes on, what is over."""
    notes = _notes(at)
    place = (
        "CASE WHEN _state = 'dead' THEN 0 WHEN _state = 'expired' THEN 1 "
        f"WHEN {notes['lapsed']} THEN 2 WHEN {notes['retrying']} THEN 3 "
        "WHEN _state = 'claimed' THEN 4 WHEN _state = 'ready' THEN 5 "
        "WHEN _state = 'cancelled' THEN 6 ELSE 7 END"
    )
    from pyspark.sql import functions as F  # noqa: PLC0415 - help works without Spark

    return items.orderBy(F.expr(place), "_seq")


@command
def stats(
    scope: Scope,
    name: Name,
    limit: Annotated[int, Option(min=0, help="Keys to show.")] = 100,
    as_of: AsOfOption = None,
    reader: ReaderOption = None,
) -> None:
    """Show counts per state and per key, waiting times, and the age of the oldest item."""
    past = read_as_of(as_of)
    queue = scope.reading(name, reader)
    found = queue.stats(past)
    shown = {**_without(found, "per_key"), "per_key": rows(_worst(found.per_key), limit)}
    scope.display.show(shown, *show_counts.stats(shown))


def _worst(per_key: DataFrame) -> DataFrame:
    """Order keys: those with dead letters, then those that have waited longest."""
    from pyspark.sql import functions as F  # noqa: PLC0415 - help works without Spark

    return per_key.orderBy(F.desc("dead"), F.desc_nulls_last("oldest_age"), "fair_key")


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
    past = read_as_of(as_of)
    queue = scope.reading(name, reader)
    letters = matching(queue.dead(past), where)
    count = letters.count()
    names = ("_seq", "_attempts", "_losses", "_finished_at", "_error", "_successor")
    found = rows(letters.select(*queue.schema.names, *names).orderBy("_seq"), limit)
    shown = {"queue": queue.name, "count": count, "items": found}
    scope.display.show(shown, *show_items.dead(shown, where))


@command
def explain(scope: Scope, name: Name, seq: _Seq, reader: ReaderOption = None) -> None:
    """Say why an item is not running."""
    shown = plain(scope.reading(name, reader).explain(seq))
    scope.display.show(shown, *show_items.explanation(shown))


@command
def history(scope: Scope, name: Name, seq: _Seq, reader: ReaderOption = None) -> None:
    """Show what happened to an item, oldest first."""
    queue = scope.reading(name, reader)
    found = rows(queue.history(seq))
    if not found:
        raise InvalidArgumentError(f"seq is {seq}: queue {queue.name!r} has no such item")
    shown = {"queue": queue.name, "seq": seq, "transitions": found}
    scope.display.show(shown, *show_items.history(shown))


def matching(items: DataFrame, where: str | None) -> DataFrame:
    """Return the items for which a predicate is true.

    Raises
    ------
    InvalidArgumentError
        When the predicate is more than an expression, or names no column of theirs.
    """
    if where is None:
        return items
    from spark_queue.delta.plans.snapshot import chosen  # noqa: PLC0415 - help works without Spark

    return chosen(items, where)


def _without(result: Any, name: str) -> dict[str, Any]:
    return {n: plain(getattr(result, n)) for n in result.__dataclass_fields__ if n != name}
