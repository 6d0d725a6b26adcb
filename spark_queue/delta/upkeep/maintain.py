"""Upkeep: expiry, dead letters, checkpoints, compaction, and dropping what finished long ago.

Every part is a step or a rewrite of its own that does not lose to other steps. It keeps none of
them waiting for longer than a step, save on a local disk, where it takes turns with native ones.
A small queue is looked after without Spark, where its files can be read here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, functions as F

from spark_queue.delta.arrow.where import Where
from spark_queue.delta.commands import admin, readers, recovery, rescue, trim
from spark_queue.delta.commands.foreseeing import GONE
from spark_queue.delta.planner import planner_of
from spark_queue.delta.plans.snapshot import user_columns
from spark_queue.delta.plans.spark_look import SparkLook
from spark_queue.delta.sql.look import find_needed
from spark_queue.delta.store.handle import Handle
from spark_queue.delta.store.lanes import rewriting
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables import output_columns, staged
from spark_queue.delta.tables.address import TableAddress
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.log import Log
from spark_queue.delta.tables.schema import ITEM, OPEN_LANE, TERMINAL
from spark_queue.delta.tables.spark_log import is_delta
from spark_queue.delta.tables.wishes import PlainSession, kept_by, small_steps
from spark_queue.delta.upkeep import by_columns, generations, purging
from spark_queue.delta.upkeep.generations import Generation
from spark_queue.delta.upkeep.reader import foresee_upkeep, kept_up
from spark_queue.results import Affected, Maintained
from spark_queue.session import DURABILITY

#: Rows of all logs of a queue up to which this process looks at them sooner than Spark does.
_MOST_ROWS = 1_000_000


def maintain(
    store: Store, retention: timedelta | None, archive_to: str | None = None
) -> Maintained:
    """Do all upkeep of a queue once, for each of its readers."""
    here = without_spark(store) if archive_to is None else None
    if here is not None:
        return by_columns.maintain(here, retention, bury=partial(_bury, store))
    started = time.monotonic()
    if archive_to is not None:
        require(store.queue.read(), store.name, archive_to)
    admin.free_of_gone(store)
    every = readers.every(store)
    done = [kept_up(reader, rescue.bury, _drop_old_checkpoints) for reader in every]
    trim.behind(store)
    generations, items = 0, 0
    if retention is not None:
        generations, items = drop_finished(store, retention, archive_to)
    compact(store)
    directory = store.handle.place.directory()
    if directory is not None:
        staged.sweep(directory)
    return Maintained(
        expired=sum(upkeep.expired for upkeep in done),
        dead=sum(upkeep.dead for upkeep in done),
        checkpoint=max((upkeep.checkpoint for upkeep in done), default=0),
        dropped_generations=generations,
        dropped_items=items,
        seconds=time.monotonic() - started,
    )


def _bury(store: Store, reader: Store) -> int:
    """Settle what lost its last lease: an output may be such that only Spark asks it."""
    if not recovery.lost_for_good(reader):
        return 0
    return rescue.bury(store.of_reader(reader.reader))


def maintainable(store: Store, retention: timedelta | None) -> Affected:
    """Return what that would end or drop; nothing is written."""
    return foresee_upkeep(store, retention, GenerationsBySpark(store))


def compact(store: Store) -> None:
    """Merge the small files of a queue's logs."""
    with rewriting(store, "queue"):
        store.queue.compact()
    for reader in readers.every(store):
        with rewriting(reader, "status"):
            reader.status.compact()


def _drop_old_checkpoints(store: Store, newest: int) -> None:
    with store.writing("status"):
        store.status.delete(f"_gen = {OPEN_LANE} AND _step < {newest}")


def drop_finished(store: Store, retention: timedelta, archive_to: str | None) -> tuple[int, int]:
    """Drop what finished before the retention (:mod:`generations`); return generations and items.

    With ``archive_to`` the items go to another table before.
    """
    dropped = generations.drop_generations(store, retention, GenerationsBySpark(store, archive_to))
    return len(dropped), sum(gen.items for gen in dropped)


@dataclass(frozen=True, slots=True)
class GenerationsBySpark:
    """See :class:`~spark_queue.delta.upkeep.generations.GenerationTables`: by queries."""

    store: Store
    archive_to: str | None = None

    def closed_before(self, before: int) -> list[Generation]:
        """See :class:`GenerationTables`."""
        items = self.store.queue.read().where((F.col("_kind") == ITEM) & (F.col("_gen") >= 0))
        facts = (
            items.where(F.col("_gen") < before)
            .groupBy("_gen")
            .agg(F.count(F.lit(1)).alias("items"), F.max("_step").alias("last_step"))
        )
        rows = facts.orderBy("_gen").collect()
        return [Generation(row["_gen"], row["items"], row["last_step"]) for row in rows]

    def find_needed(self, reader: Store, since: int | None) -> set[int]:
        """See :class:`GenerationTables`."""
        rows = find_needed(SparkLook, reader, since).select("_gen").distinct().collect()
        return {row[0] for row in rows}

    def ends(self, reader: Store) -> dict[int, datetime]:
        """See :class:`GenerationTables`."""
        log = reader.status.read().where(F.col("_state").isin(*TERMINAL) & (F.col("_gen") >= 0))
        rows = log.groupBy("_gen").agg(F.max("_at").alias("last")).collect()
        return {row["_gen"]: row["last"].astimezone() for row in rows}

    def keep(self, gen: Generation) -> None:
        """Append the items of a generation to another table, once."""
        if self.archive_to is not None:
            rows = self.store.queue.read()
            rows = rows.where((F.col("_kind") == ITEM) & (F.col("_gen") == gen.number))
            name = generations.archive_name(self.store)
            add(rows, self.store.name, name, gen.number, self.archive_to)

    def drop(self, reader: Store, which: LogName, gen: Generation) -> None:
        """See :class:`GenerationTables`."""
        log = reader.queue if which == "queue" else reader.status
        with rewriting(reader, which):
            log.delete(f"_gen = {gen.number}")


def purgeable(store: Store, where: Where) -> Affected:
    """Return the finished items that are meant, and that no reader needs."""
    found = purging.purgeable(store, _PurgeBySpark(where))
    if found is None:
        return Affected(0)
    first = next(readers.claiming(store))
    rows = admin.read_finished(first, where).join(found.select("_seq"), "_seq", "left_semi")
    return planner_of(first).count_affected(rows, GONE)


def purge(store: Store, where: Where) -> Affected:
    """Remove such items with their history."""
    count = purging.purge_items(store, _PurgeBySpark(where))
    return Affected(count, becomes={GONE: count})


@dataclass(frozen=True, slots=True)
class _PurgeBySpark:
    """See :class:`~spark_queue.delta.upkeep.purging.Purge`: by queries."""

    where: Where

    def find_finished(self, reader: Store) -> DataFrame:
        """See :class:`Purge`."""
        found: DataFrame = admin.read_finished(reader, self.where)
        return found.select("_seq", "_gen")

    def without(self, found: DataFrame, reader: Store, since: int | None) -> DataFrame:
        """See :class:`Purge`."""
        return found.join(find_needed(SparkLook, reader, since).select("_seq"), "_seq", "left_anti")

    def without_successors(self, found: DataFrame, store: Store) -> DataFrame:
        """See :class:`Purge`."""
        items = store.queue.read().where(F.col("_kind") == ITEM)
        there, going = (rows.select(F.col("_seq").alias("_origin")) for rows in (items, found))
        again = items.where("_origin is not null").select("_seq", "_origin")
        stay = again.join(there, "_origin", "left_semi").join(going, "_origin", "left_anti")
        return found.join(stay.select("_seq"), "_seq", "left_anti")

    def split_kept(self, found: DataFrame) -> tuple[DataFrame, int]:
        """See :class:`Purge`."""
        found = found.localCheckpoint()
        return found, found.count()

    def remove(self, reader: Store, which: LogName, found: DataFrame) -> None:
        """See :class:`Purge`."""
        log = reader.queue if which == "queue" else reader.status
        log.remove(found)


def without_spark(store: Store) -> Store | None:
    """Return a small queue as a process without Spark sees it; ``None`` where Spark is needed."""
    # A session that asks for decisions by Spark, or by both, has its upkeep done there, too.
    if not Snapshot(store).are_files_read or small_steps(store.session) != "memory":
        return None
    if not store.handle.address.is_path or _sends_items(store) or not _is_small(store):
        return None
    mine = store.handle
    session = PlainSession({DURABILITY: kept_by(store.session)})
    handle = Handle(session, mine.address, mine.clock, mine.listener, mine.hook, mine.holder)
    # Both have to share what the process knows of the queue.
    is_same = handle.place.identity() == mine.place.identity()
    return Store(handle, store.reader) if is_same else None


def _sends_items(store: Store) -> bool:
    """Tell whether a reader sends items to other queues, for which their keys are compared."""
    limits = (reader.limits() for reader in readers.claiming(store))
    return any(one.expire_to or one.punt_to or one.punt_many_to for one in limits)


def _is_small(store: Store) -> bool:
    rows = 0.0
    for log in _logs(store):
        if log is None:
            return False
        rows += sum(file.rows for file in log.files())
    return rows <= _MOST_ROWS


def _logs(store: Store) -> Iterator[Log[Any] | None]:
    yield store.native("queue")
    yield from (reader.native("status") for reader in readers.with_logs(store))


def add(rows: DataFrame, queue: str, name: str, generation: int, to: str) -> None:
    """Append the items of a generation to a Delta table, which is made where it is missing.

    Adding them again after a crash does nothing: the table knows which generations it has.

    Parameters
    ----------
    rows : DataFrame
        Items, as rows of the item log.
    queue : str
        The name of the queue, which the rows carry as ``_queue``.
    name : str
        Under what the table knows which generations it has.
    generation : int
        The number of the generation.
    to : str
        The table; a text with a ``/`` is a path.
    """
    writer = _select(rows, queue).write.format("delta").mode("append")
    writer = writer.option("txnAppId", name).option("txnVersion", generation + 1)
    address = TableAddress.of(to)
    if address.is_path:
        writer.save(address.target)
    else:
        writer.saveAsTable(address.target)


def require(rows: DataFrame, queue: str, to: str) -> None:
    """Check that items can be appended to a table, if it is there.

    Raises
    ------
    SchemaMismatchError
        With the column that does not fit.
    """
    spark, address = rows.sparkSession, TableAddress.of(to)
    if is_delta(spark, address):
        output_columns.require(
            spark,
            address,
            spark.table(address.sql()).schema,
            _select(rows, queue).schema,
            f"the archive {address.target!r}",
            "the queue",
        )


def _select(rows: DataFrame, queue: str) -> DataFrame:
    return rows.select(
        *user_columns(rows), "_seq", "_enqueued_at", "_origin", F.lit(queue).alias("_queue")
    )
