"""Upkeep: expiry, dead letters, checkpoints, compaction, and dropping what finished long ago.

Every part is a step or a rewrite of its own that does not lose to other steps. It keeps none of
them waiting for longer than a step, save on a local disk, where it takes turns with native ones.
A small queue is looked after without Spark, where its files can be read here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.arrow.where import Where
from spark_queue.delta.commands import admin, readers, recovery, rescue, trim
from spark_queue.delta.commands.foreseeing import GONE
from spark_queue.delta.plans import ending, snapshot
from spark_queue.delta.store.lanes import rewriting
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.schema import ITEM, OPEN_LANE, TERMINAL
from spark_queue.delta.upkeep import archive, by_columns, foreseen, generations, purging
from spark_queue.delta.upkeep.generations import Generation
from spark_queue.delta.upkeep.reader import kept_up
from spark_queue.delta.upkeep.without_spark import without_spark
from spark_queue.results import Affected, Maintained


def maintain(
    store: Store, retention: timedelta | None, archive_to: str | None = None
) -> Maintained:
    """Do all upkeep of a queue once, for each of its readers."""
    here = without_spark(store) if archive_to is None else None
    if here is not None:
        return by_columns.maintain(here, retention, bury=partial(_bury, store))
    started = time.monotonic()
    if archive_to is not None:
        archive.require(store.queue.read(), store.name, archive_to)
    admin.free_of_gone(store)
    every = readers.every(store)
    done = [kept_up(reader, rescue.bury, _drop_old_checkpoints) for reader in every]
    trim.behind(store)
    generations, items = 0, 0
    if retention is not None:
        generations, items = drop_finished(store, retention, archive_to)
    compact(store)
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
    return foreseen.foresee_upkeep(store, retention, GenerationsBySpark(store))


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
        rows = snapshot.find_needed(reader, since).select("_gen").distinct().collect()
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
            archive.add(rows, self.store.name, name, gen.number, self.archive_to)

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
    return ending.count_affected(first, rows, GONE)


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
        return admin.read_finished(reader, self.where).select("_seq", "_gen")

    def without(self, found: DataFrame, reader: Store, since: int | None) -> DataFrame:
        """See :class:`Purge`."""
        return found.join(snapshot.find_needed(reader, since).select("_seq"), "_seq", "left_anti")

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
