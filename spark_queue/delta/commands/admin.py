"""What an operator does to a queue: create, configure, pause, cancel, redrive, purge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from spark_queue.config import QueueConfig
from spark_queue.delta.commands import checkpoint
from spark_queue.delta.input.columns import require_keys, require_user_schema
from spark_queue.delta.plans import limits, snapshot
from spark_queue.delta.replica.columns import status_table
from spark_queue.delta.steps import Answer, Step, is_small, on_status
from spark_queue.delta.store.committing import commit_status, require_not_held
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables import lock, paths, turnstile
from spark_queue.delta.tables.heads import StatusHead, following
from spark_queue.delta.tables.schema import (
    ACKED,
    CANCELLED,
    CLAIMED,
    CONFIG,
    EXPIRED,
    ITEM,
    META_LANE,
    QUEUE_COLUMNS,
    READY,
    SCHEDULE,
    STATUS_COLUMNS,
    TERMINAL,
)
from spark_queue.delta.tables.settings import Settings
from spark_queue.delta.tables.spark_types import struct_of
from spark_queue.errors import QueueExistsError

_T = TypeVar("_T")

#: Changes the settings, given those in force and the head they are in force at.
Change = Callable[[Settings, StatusHead], Settings]


def create(store: Store, schema: StructType, config: QueueConfig) -> None:
    """Make the tables of a queue and log its configuration as the first step."""
    require_user_schema(schema)
    require_keys(store.spark, schema, config)
    settings = Settings.initial(config)
    _require_no_file(store)
    with lock.log_lock(f"{store.name} is made"), turnstile.holding(store.name, _home(store)):
        _make(store, schema, settings)


def _home(store: Store) -> Path | None:
    """Return the directory that a queue's tables are to be in, where its path says that."""
    status = paths.directory_of(store.spark, store.handle.address.status)
    if status is None:
        return None
    status.parent.mkdir(parents=True, exist_ok=True)
    return status.parent


def _make(store: Store, schema: StructType, settings: Settings) -> None:
    _require_free(store)
    # A row of our own has no values in the user's columns.
    users = [StructField(f.name, f.dataType, metadata=f.metadata) for f in schema]
    # Of two processes the first step decides; neither replaces what the other has just made.
    columns = StructType([*struct_of(QUEUE_COLUMNS), *users])
    store.queue.create(columns.json(), replaces=store.queue.exists())
    store.status.create(STATUS_COLUMNS.json, replaces=store.status.exists())
    with store.writing("status"):
        head = following(StatusHead(), config_step=1)
        if not commit_status(store, head, _first_row(settings, store.clock.now())):
            raise QueueExistsError(store.name)
        store.begin(settings)


def _require_no_file(store: Store) -> None:
    file = store.handle.address.plain_file()
    if file is not None:
        raise QueueExistsError(
            store.name, f"{str(file)!r} is a plain file: move it, or use another path"
        )


def _require_free(store: Store) -> None:
    """Refuse a place that is taken; what a crash inside ``create`` left there is not in the way."""
    for log in (store.queue, store.status):
        if log.exists() and not log.read().isEmpty():
            raise QueueExistsError(store.name)


def drop(store: Store) -> None:
    """Remove the tables of a queue, and their files.

    Raises
    ------
    FencedError
        When a front holds the queue.
    """
    with store.writing("queue"), store.writing("status"):
        require_not_held(store, store.queue_head())
        numbers = [number for number in store.queue_head().readers if number]
        store.forget()
        for reader in map(store.of_reader, numbers):
            if reader.status.exists():
                reader.status.drop()
        store.queue.drop()
        store.status.drop()


def configure(store: Store, change: Change, action: str = "configure") -> int:
    """Log another configuration, in force from this step on; return the step."""

    def decided(before: StatusHead) -> Step[StatusHead, tuple[int, Settings]]:
        old = store.settings(before)
        new = change(old, before)
        row = config_row(store, new, store.clock.now())
        head = following(before)
        if new.stretches != old.stretches:
            # Turns are stretched around the pointer, so the fold must start there.
            stage = checkpoint.staged(store, before, old, new)
            head, row = stage.head, row.unionByName(stage.rows, allowMissingColumns=True)
        head = replace(head, config_step=head.step)
        return Step(head=head, rows=row, counts={}, answer=(head.step, new))

    # Asked before: what is made anew in this place later is another queue.
    at = store.position()
    step, settings = on_status(store, action, decided)
    at.settings[step] = settings
    return step


def _first_row(settings: Settings, now: datetime) -> pa.Table:
    """Return the row of the first step."""
    row = {"_gen": META_LANE, "_kind": CONFIG, "_at": now, "_body": settings.to_json()}
    return status_table([row])


def config_row(store: Store, settings: Settings, now: datetime) -> DataFrame:
    """Return the row of a step from which settings are in force."""
    return store.spark.createDataFrame(
        [(META_LANE, CONFIG, now, settings.to_json())],
        "_gen int, _kind string, _at timestamp, _body string",
    )


def matching(store: Store, where: str, states: tuple[str, ...]) -> DataFrame:
    """Return the items in some states for which a SQL predicate is true.

    Raises
    ------
    InvalidArgumentError
        When the predicate does not parse, is more than an expression, or names no such column.
    """
    current = snapshot.status(store.items(), store.status.read())
    return snapshot.chosen(current.where(F.col("_state").isin(*states)), where)


def cancel(store: Store, where: str) -> tuple[int, int]:
    """End every live item for which a predicate is true; return the step and the count."""
    return end(store, "cancel", lambda: matching(store, where, (READY, CLAIMED)), CANCELLED)


def expire(store: Store) -> tuple[int, int]:
    """Log the expiry of every ready item whose time is over; return the step and the count."""
    now = store.clock.now()
    over = limits.expires_at(store.limits()) <= now

    def due() -> DataFrame:
        current = snapshot.status(store.items(), store.status.read())
        return current.where((F.col("_state") == READY) & over)

    return end(store, "expire", due, EXPIRED)


def end(
    store: Store,
    action: str,
    find: Callable[[], DataFrame],
    state: str,
    error: str | None = None,
) -> tuple[int, int]:
    """Log the end of items, as one step; return the step and the count.

    Parameters
    ----------
    find : callable
        Returns the items as of the step before: ``_seq``, ``_gen``, ``_state``, ``_attempts``,
        ``_losses`` and the schedule. Asked again for each try.
    state : str
        The terminal state that they get.
    error : str, optional
        Why.
    """
    now = store.clock.now()

    def decided(before: StatusHead) -> Answer[tuple[int, int]]:
        found = find().select("_seq", "_gen", "_state", "_attempts", "_losses", *SCHEDULE)
        found, was = _counted(found)
        total = sum(was.values())
        if total == 0:
            return Answer(answer=(0, 0))
        head = following(
            before,
            claimed=before.claimed - was.get(CLAIMED, 0),
            finished=before.finishing({state: total}),
            log_rows=before.log_rows + total,
        )
        rows = found.withColumns(
            {
                "_kind": F.lit(ITEM),
                "_state": F.lit(state),
                "_at": F.lit(now),
                "_error": F.lit(error).cast("string"),
            }
        )
        return _moved(head, rows, state, total, (head.step, total))

    return on_status(store, action, decided)


def _counted(found: DataFrame) -> tuple[DataFrame, dict[str, int]]:
    """Return items, computed, and how many of them there are by state."""
    found = found.localCheckpoint()
    return found, {row[0]: row[1] for row in found.groupBy("_state").count().collect()}


def _moved(
    head: StatusHead, rows: DataFrame, state: str, total: int, answer: _T
) -> Step[StatusHead, _T]:
    """Return the step by which so many items come to a state."""
    return Step(head=head, rows=rows, small=is_small(total), counts={state: total}, answer=answer)


def finished(store: Store, where: str) -> DataFrame:
    """Return the finished items for which a predicate is true."""
    return matching(store, where, TERMINAL)


def revive(store: Store, where: str) -> int:
    """Make finished items that were not acked ready again; return how many."""
    ended = tuple(s for s in TERMINAL if s != ACKED)

    def decided(before: StatusHead) -> Answer[int]:
        found = matching(store, where, ended).select("_seq", "_gen", "_state", *SCHEDULE)
        found, was = _counted(found)
        total = sum(was.values())
        if total == 0:
            return Answer(answer=0)
        head = following(
            before,
            finished=before.finishing({state: -n for state, n in was.items()}),
            log_rows=before.log_rows + total,
        )
        columns = {"_kind": F.lit(ITEM), "_state": F.lit(READY), "_at": F.lit(store.clock.now())}
        nothing = {"_attempts": F.lit(0), "_losses": F.lit(0)}
        gone = {"_available_at": _never(), "_expires_at": _never()}
        rows = found.withColumns({**columns, **nothing, **gone})
        return _moved(head, rows, READY, total, total)

    return on_status(store, "redrive", decided)


def _never() -> Column:
    return F.lit(None).cast("timestamp")


def redrivable(store: Store, where: str, *, again: bool) -> DataFrame:
    """Return the finished items for which a predicate is true, as a frame to enqueue again.

    Those that were enqueued again before are among them only if asked for.
    """
    log = store.queue.read()
    found = matching(store, where, tuple(s for s in TERMINAL if s != ACKED))
    if not again:
        found = found.join(snapshot.successors(log), "_seq", "left_anti")
    users = snapshot.user_columns(log)
    return found.orderBy("_seq").select(
        *users, F.col("_seq").alias("_origin"), F.col("_cost").alias("cost")
    )
