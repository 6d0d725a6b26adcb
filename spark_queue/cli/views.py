"""Commands that only read: status, stats, dead, explain. They work while another process writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_queue.cli.plain import plain, rows
from spark_queue.cli.scope import Json, Name, Reader, Verbose, command
from spark_queue.cli.terminal import fields_table, rows_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Limit = Annotated[int, typer.Option(min=0, help="Items to show.")]

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


def status(
    ctx: typer.Context,
    name: Name,
    where: Annotated[str | None, typer.Option(help="Only these: a SQL predicate.")] = None,
    limit: _Limit = 20,
    reader: Reader = None,
    *,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show how many items are in which state, and the first of them."""
    with command(ctx, json=json, verbose=verbose) as scope:
        queue = scope.reading(name, reader)
        items = _matching(queue.status(), where)
        counts = {row[0]: row[1] for row in items.groupBy("_state").count().collect()}
        shown = rows(items.select(*queue.schema.names, *_SHOWN).orderBy("_seq"), limit)
        scope.terminal.show(
            {"queue": queue.name, "states": dict(sorted(counts.items())), "items": shown},
            fields_table(dict(sorted(counts.items()))),
            rows_table(shown, title=f"the first {len(shown)} of {sum(counts.values()):,} item(s)"),
        )


def stats(
    ctx: typer.Context,
    name: Name,
    limit: Annotated[int, typer.Option(min=0, help="Keys to show.")] = 100,
    reader: Reader = None,
    *,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show counts per state and per key, waiting times, and the age of the oldest item."""
    with command(ctx, json=json, verbose=verbose) as scope:
        found = scope.reading(name, reader).stats()
        per_key = rows(found.per_key, limit)
        scalars = _without(found, "per_key")
        scope.terminal.show(
            {**scalars, "per_key": per_key}, fields_table(scalars), rows_table(per_key)
        )


def dead(
    ctx: typer.Context,
    name: Name,
    where: Annotated[str | None, typer.Option(help="Only these: a SQL predicate.")] = None,
    limit: _Limit = 100,
    reader: Reader = None,
    *,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show the dead letters: items that failed for good, with their last error."""
    with command(ctx, json=json, verbose=verbose) as scope:
        queue = scope.reading(name, reader)
        letters = _matching(queue.dead(), where)
        count = letters.count()
        names = ("_seq", "_attempts", "_losses", "_finished_at", "_error")
        shown = rows(letters.select(*queue.schema.names, *names).orderBy("_seq"), limit)
        scope.terminal.show(
            {"queue": queue.name, "count": count, "items": shown},
            rows_table(shown, title=f"{len(shown):,} of {count:,} dead letter(s)"),
        )


def explain(
    ctx: typer.Context,
    name: Name,
    seq: Annotated[int, typer.Argument(help="The number of the item.")],
    reader: Reader = None,
    *,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Say why an item is not running."""
    with command(ctx, json=json, verbose=verbose) as scope:
        scope.terminal.show(scope.reading(name, reader).explain(seq))


def _matching(items: DataFrame, where: str | None) -> DataFrame:
    if where is None:
        return items
    from spark_queue.delta.inputs import sql_expression  # noqa: PLC0415 - help works without Spark

    return items.where(sql_expression("where", where))


def _without(result: Any, name: str) -> dict[str, Any]:
    fields = {n: getattr(result, n) for n in result.__dataclass_fields__ if n != name}
    return {key: plain(value) for key, value in fields.items()}
