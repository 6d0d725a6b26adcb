"""Commands that this process answers: of a queue on its disk, in a second and without Java.

What needs Spark is a :class:`~spark_queue.SparkNeededError`, before anything was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue import local_queue, looking
from spark_queue.cli.choice import (
    LETTER,
    SHOWN,
    AnyQueue,
    Past,
    RowSource,
    is_local,
    local_path,
)
from spark_queue.cli.words import plain
from spark_queue.clock import SystemClock
from spark_queue.config import QueueConfig
from spark_queue.delta.arrow.rows import beside
from spark_queue.delta.arrow.where import choose
from spark_queue.delta.store.store import Store
from spark_queue.delta.views import arrow_views
from spark_queue.delta.views.ends import Ends, ends_at
from spark_queue.errors import (
    InvalidArgumentError,
    InvalidConfigError,
    SchemaMismatchError,
    SparkNeededError,
)
from spark_queue.local_queue import LocalQueue
from spark_queue.report import reading
from spark_queue.report.reading import Followed
from spark_queue.results import Affected, EnqueueResult, QueueStats

if TYPE_CHECKING:
    from spark_queue.cli.scope import Scope
    from spark_queue.doctor.finding import Checkup, Thresholds


#: Rows up to which a log is looked at here; a cluster has more room.
_MOST = 1_000_000


def create(scope: Scope, name: str, schema: str, config: QueueConfig) -> str:
    """See :class:`~spark_queue.cli.choice.CommandEngine`, for all below."""
    try:
        return LocalQueue.create(local_path(name), schema, config).name
    except (InvalidArgumentError, InvalidConfigError, SchemaMismatchError) as exc:
        # Spark takes some columns and keys that are none here, and says of others why not.
        scope.require_wrong_for_all(exc)
        raise


def open_queue(scope: Scope, name: str, reader: str | None) -> AnyQueue:
    """See :class:`CommandEngine`."""
    del scope
    queue = LocalQueue.open(local_path(name))
    return queue if reader is None else queue.open_reader(reader)


def locate(scope: Scope, name: str) -> str:
    """See :class:`CommandEngine`."""
    del scope
    return local_path(name)


def drop(scope: Scope, place: str, *, dry_run: bool = False) -> Affected | None:
    """See :class:`CommandEngine`."""
    del scope
    return LocalQueue.drop(local_path(place), dry_run=dry_run)


def clone(scope: Scope, name: str, to: str) -> AnyQueue:
    """See :class:`CommandEngine`."""
    del scope
    if not is_local(to):
        raise SparkNeededError(f"a clone in {to!r}", "it is not on this machine's disk")
    return LocalQueue.open(local_path(name)).clone(local_path(to))


def examine(scope: Scope, name: str, limits: Thresholds) -> Checkup:
    """See :class:`CommandEngine`."""
    del scope
    return local_queue.examine(local_path(name), limits)


def enqueue(scope: Scope, queue: AnyQueue, source: RowSource) -> EnqueueResult[Any]:
    """See :class:`CommandEngine`."""
    from spark_queue.cli import input_files  # noqa: PLC0415 - takes a while

    del scope
    into = _local(queue)
    if source.files is None or source.kind is None:
        raise SparkNeededError("a table of the catalog", "the catalog is a session's")
    columns = local_queue.columns_of(into)
    table = input_files.read(source.files, source.kind, columns)
    return into.enqueue(
        table, order_by=source.order_by, on_duplicate=source.on_duplicate, batch=source.batch
    )


def columns(queue: AnyQueue) -> str:
    """See :class:`CommandEngine`."""
    found = local_queue.columns_of(_local(queue))
    return ", ".join(f"{column.name} {column.kind.simple}" for column in found)


def status(
    queue: AnyQueue, past: Past, where: str | None, limit: int
) -> tuple[datetime, dict[str, Any]]:
    """See :class:`CommandEngine`."""
    store = looking.store_of(_local(queue))
    ends = ends_at(store, past)
    at = (ends.at or SystemClock().now()).astimezone(timezone.utc)
    found = _select(store, arrow_views.standing(store, ends, _MOST), ends, where)
    counts, seqs = arrow_views.VIEWS.note(store, found, at, limit)
    first = beside(found, pa.chunked_array([seqs], pa.int64()))
    own = _rows(arrow_views.values(store, first["_seq"]))
    shown = [{**mine, **row} for mine, row in zip(own, _rows(first.select(SHOWN)), strict=True)]
    return at, {**counts, "items": shown}


def dead(
    queue: AnyQueue, past: Past, where: str | None, limit: int
) -> tuple[int, list[dict[str, Any]]]:
    """See :class:`CommandEngine`."""
    store = looking.store_of(_local(queue))
    ends = ends_at(store, past)
    standing = arrow_views.standing(store, ends, _MOST, dead=True)
    letters = _select(store, standing, ends, where)
    first = letters.slice(0, limit)
    own = _rows(arrow_views.values(store, first["_seq"]))
    shown = [{**mine, **row} for mine, row in zip(own, _rows(first.select(LETTER)), strict=True)]
    return letters.num_rows, shown


def stats(queue: AnyQueue, past: Past, limit: int) -> dict[str, Any]:
    """See :class:`CommandEngine`."""
    found = _local(queue).stats(past)
    keys: pa.Table = cast("Any", found.per_key)
    counts = {name: plain(getattr(found, name)) for name in _COUNTS}
    return {**counts, "per_key": _rows(keys.take(_worst(keys)[:limit]))}


#: What there is to say of a queue as a whole, in the order in which it is said.
_COUNTS = tuple(field.name for field in fields(QueueStats) if field.name != "per_key")


def _worst(keys: pa.Table) -> pa.Array:
    """Order keys: those with dead letters, then those that have waited longest."""
    ages, names = keys["oldest_age"], keys["fair_key"]
    by = {"dead": keys["dead"], "waits": pc.is_valid(ages), "oldest_age": ages}
    then = {"is_named": pc.is_valid(names), "name": names}
    order = [(name, "descending") for name in by] + [(name, "ascending") for name in then]
    return pc.sort_indices(pa.table({**by, **then}), sort_keys=order)


def reports(queue: AnyQueue, window: timedelta, like: Followed | None = None) -> Followed:
    """See :class:`CommandEngine`."""
    return reading.follow(looking.store_of(_local(queue)), window, like.engines if like else None)


def _rows(table: pa.Table) -> Sequence[dict[str, Any]]:
    """Return rows as plain data; all their times are instants, in UTC."""
    return [plain(row) for row in table.to_pylist()]


def _select(store: Store, found: pa.Table, ends: Ends, where: str | None) -> pa.Table:
    """Return the items that a condition means, of those that stand in a queue."""
    if where is None:
        return found
    meant = choose(store, arrow_views.VIEWS.status(store, ends), where)
    return found.filter(pc.is_in(found["_seq"], meant["_seq"].combine_chunks()))


def _local(queue: AnyQueue) -> LocalQueue:
    return cast("LocalQueue", queue)
