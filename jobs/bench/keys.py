"""Measure what the keys of a queue cost an enqueue without Spark: time to mark rows, in turns.

Each is over the time that Python takes to read the same rows: `to_pylist`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated

import pyarrow as pa
import typer

from report import Figure, at_most, measure, ratio_figure, rounds, seconds
from spark_queue import QueueConfig
from spark_queue.columns.arrow.arrow_keys import mark_rows
from spark_queue.columns.arrow.arrow_types import parse_fields

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

#: A key of text takes a third of that, one of two columns twice that, a hashed one as much.
_TARGET = at_most(3.0)

_COLUMNS = parse_fields("id string, tenant string, n bigint")

#: Configurations of which the keys are computed.
_KEYS = {
    "dedup": QueueConfig(dedup_key="id"),
    "dedup_of_two": QueueConfig(dedup_key="struct(tenant, id)"),
    "shard": QueueConfig(group_key="pmod(xxhash64(tenant, n), 16)"),
}


def measured(count: int, times: int) -> Iterator[Figure]:
    """Mark rows by each configuration."""
    ids = pa.array([f"{n:08}-0000-4000-8000-000000000000" for n in range(count)])
    tenants = pa.array([f"tenant {n % 100}" for n in range(count)])
    rows = pa.table({"id": ids, "tenant": tenants, "n": pa.array(range(count), pa.int64())})
    calls: dict[str, Callable[[], object]] = {
        name: partial(mark_rows, rows, _COLUMNS, config) for name, config in _KEYS.items()
    }
    calls["read"] = rows.to_pylist
    taken = rounds({name: partial(seconds, call) for name, call in calls.items()}, times)
    for name in _KEYS:
        detail = f"{count:,} rows; at best {count / min(taken[name]):,.0f} a second"
        yield ratio_figure(f"keys.{name}", taken[name], taken["read"], _TARGET, detail)


@app.command(help=__doc__)
def main(
    count: Annotated[int, typer.Option("--rows", min=1, help="Rows to mark.")] = 200_000,
    times: Annotated[int, typer.Option("--rounds", min=1, help="Rounds in turns.")] = 7,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="No table at the end.")] = False,
    strict: Annotated[bool, typer.Option(help="Fail when a target is missed.")] = False,
) -> None:
    """Measure what was asked for."""
    sections = {"keys": partial(measured, count, times)}
    raise typer.Exit(measure(sections, None, as_json=as_json, strict=strict))


if __name__ == "__main__":
    app()
