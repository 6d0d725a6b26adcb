"""Upkeep of a queue without Spark: the same steps as :mod:`spark_queue.delta.upkeep.maintain`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow.rows import log_of, rows_of
from spark_queue.delta.arrow.where import Where
from spark_queue.delta.commands import admin, asking, readers, recovery, trim
from spark_queue.delta.commands.foreseeing import GONE
from spark_queue.delta.planner import planner_of
from spark_queue.delta.sql.arrow_look import ArrowLook
from spark_queue.delta.sql.look import find_needed
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables import lives, merging, staged, tidying
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.files import LogFile
from spark_queue.delta.tables.local_log import LocalLog
from spark_queue.delta.tables.outputs import ResultTable
from spark_queue.delta.tables.schema import OPEN_LANE, TERMINAL
from spark_queue.delta.tables.sweeping import Ages
from spark_queue.delta.tables.tidying import Tidied
from spark_queue.delta.upkeep import generations, purging
from spark_queue.delta.upkeep.generations import Generation
from spark_queue.delta.upkeep.reader import foresee_upkeep, kept_up
from spark_queue.results import Affected, Maintained

#: Tells of the rows of a file which of them go.
IsGone = Callable[[pa.Table], pa.ChunkedArray]


def maintain(
    store: Store,
    retention: timedelta | None,
    archive_to: str | None = None,
    *,
    bury: Callable[[Store], int] = recovery.bury,
) -> Maintained:
    """Do all upkeep of a queue once, for each of its readers."""
    started = time.monotonic()
    archive = None if archive_to is None else _archive(store, archive_to)
    admin.free_of_gone(store)
    every = readers.every(store)
    done = [kept_up(reader, bury, _drop_old_checkpoints) for reader in every]
    trim.behind(store)
    dropped: list[Generation] = []
    if retention is not None:
        dropped = generations.drop_generations(
            store, retention, GenerationsByColumns(store, archive)
        )
    tidied = [_tidy(store, "queue"), *(_tidy(r, "status") for r in readers.every(store))]
    directory = store.handle.place.directory()
    if directory is not None:
        lives.sweep(directory)
        staged.sweep(directory)
    return Maintained(
        expired=sum(upkeep.expired for upkeep in done),
        dead=sum(upkeep.dead for upkeep in done),
        checkpoint=max((upkeep.checkpoint for upkeep in done), default=0),
        dropped_generations=len(dropped),
        dropped_items=sum(gen.items for gen in dropped),
        merged_files=sum(log.merged for log in tidied),
        removed_files=sum(log.removed for log in tidied),
        seconds=time.monotonic() - started,
    )


def maintainable(store: Store, retention: timedelta | None) -> Affected:
    """Return what that would end or drop; nothing is written."""
    return foresee_upkeep(store, retention, GenerationsByColumns(store))


def _drop_old_checkpoints(reader: Store, newest: int) -> None:
    _remove(reader, "status", _of(OPEN_LANE), lambda rows: pc.less(rows["_step"], newest))


def _tidy(store: Store, which: LogName) -> Tidied:
    """Merge the files of a log, and remove those that nobody reads any more."""
    # A stream may be far behind, and reads files that were merged since.
    streams = any(facts.streams for facts in store.queue_head().readers.values())
    ages = Ages() if streams and which == "queue" else Ages(most=math.inf)
    log = log_of(store, which)
    return tidying.tidy(log, ages) if isinstance(log, LocalLog) else Tidied()


def _remove(
    store: Store, which: LogName, may_have: Callable[[LogFile], bool], is_gone: IsGone
) -> None:
    """Take rows out of a log."""
    with store.writing(which):
        if merging.remove(log_of(store, which), may_have, is_gone):
            (store.queue if which == "queue" else store.status).force()


@dataclass(frozen=True, slots=True)
class FinishedByColumns:
    """See :class:`~spark_queue.delta.upkeep.generations.Finished`."""

    store: Store

    def closed_before(self, before: int) -> list[Generation]:
        """See :class:`Finished`."""
        rows = rows_of(self.store, "queue", ("_gen", "_step"))
        is_old = pc.and_(pc.greater_equal(rows["_gen"], 0), pc.less(rows["_gen"], before))
        rows = rows.filter(is_old)
        facts = rows.group_by("_gen").aggregate([("_step", "count"), ("_step", "max")])
        told = facts.sort_by("_gen").select(["_gen", "_step_count", "_step_max"]).to_pydict()
        return [Generation(*fact) for fact in zip(*told.values(), strict=True)]

    def find_needed(self, reader: Store, since: int | None) -> set[int]:
        """See :class:`Finished`."""
        return set(pc.unique(find_needed(ArrowLook, reader, since)["_gen"]).to_pylist())

    def ends(self, reader: Store) -> dict[int, datetime]:
        """See :class:`Finished`."""
        rows = rows_of(reader, "status", ("_gen", "_state", "_at"))
        over = pc.is_in(rows["_state"], pa.array(TERMINAL))
        rows = rows.filter(pc.and_(over, pc.greater_equal(rows["_gen"], 0)))
        last = rows.group_by("_gen").aggregate([("_at", "max")]).to_pydict()
        return dict(zip(last["_gen"], last["_at_max"], strict=True))


@dataclass(frozen=True, slots=True)
class GenerationsByColumns(FinishedByColumns):
    """See :class:`~spark_queue.delta.upkeep.generations.GenerationTables`: by columns."""

    archive: ResultTable | None = None

    def keep(self, gen: Generation) -> None:
        """See :class:`GenerationTables`."""
        if self.archive is not None:
            name = generations.archive_name(self.store)
            self.archive.append(_archive_rows(self.store, gen.number), name, gen.number + 1)

    def drop(self, reader: Store, which: LogName, gen: Generation) -> None:
        """See :class:`GenerationTables`."""
        _remove(reader, which, _of(gen.number), lambda rows: pc.is_valid(rows["_step"]))


def purgeable(store: Store, where: Where) -> Affected:
    """Return which finished items are meant that no reader needs; nothing is written."""
    found = purging.purgeable(store, _PurgeByColumns(where))
    if found is None:
        return Affected(0)
    first = next(readers.claiming(store))
    rows = admin.read_finished(first, where)
    rows = rows.filter(pc.is_in(rows["_seq"], found.combine_chunks()))
    return planner_of(first).count_affected(rows, GONE)


def purge(store: Store, where: Where) -> Affected:
    """Remove such items with their history."""
    count = purging.purge_items(store, _PurgeByColumns(where))
    return Affected(count, becomes={GONE: count})


@dataclass(frozen=True, slots=True)
class _PurgeByColumns:
    """See :class:`~spark_queue.delta.upkeep.purging.Purge`: by columns."""

    where: Where

    def find_finished(self, reader: Store) -> pa.ChunkedArray:
        """See :class:`Purge`."""
        return admin.read_finished(reader, self.where)["_seq"]

    def without(self, found: pa.ChunkedArray, reader: Store, since: int | None) -> pa.ChunkedArray:
        """See :class:`Purge`."""
        return found.filter(
            pc.invert(pc.is_in(found, find_needed(ArrowLook, reader, since)["_seq"]))
        )

    def without_successors(self, found: pa.ChunkedArray, store: Store) -> pa.ChunkedArray:
        """See :class:`Purge`."""
        items = rows_of(store, "queue", ("_seq", "_origin"))
        again = items.filter(pc.is_valid(items["_origin"]))
        again = again.filter(pc.is_in(again["_origin"], items["_seq"].combine_chunks()))
        stay = again.filter(pc.invert(pc.is_in(again["_origin"], found.combine_chunks())))
        return found.filter(pc.invert(pc.is_in(found, stay["_seq"].combine_chunks())))

    def split_kept(self, found: pa.ChunkedArray) -> tuple[pa.ChunkedArray, int]:
        """See :class:`Purge`."""
        return found, len(found)

    def remove(self, reader: Store, which: LogName, found: pa.ChunkedArray) -> None:
        """See :class:`Purge`."""
        first, last = pc.min(found).as_py(), pc.max(found).as_py()
        known = found.combine_chunks()
        _remove(
            reader,
            which,
            lambda file: file.gen >= 0 and file.may_have("_seq", first, last),
            lambda rows: pc.is_in(rows["_seq"], known),
        )


def _archive(store: Store, path: str) -> ResultTable:
    """Return the table that gets items before they are dropped; it is made where it is missing."""
    table = asking.output(store, path, "archive", "the queue")
    columns = _archive_rows(store, OPEN_LANE).schema
    if not table.exists():
        table.make(columns)
    table.require(columns)
    return table


def _archive_rows(store: Store, gen: int) -> pa.Table:
    """Return the items of a generation with the columns that an archive has."""
    columns = (*store.user_columns(), "_seq", "_enqueued_at", "_origin")
    rows = rows_of(store, "queue", ("_gen", *columns), _of(gen))
    rows = rows.filter(pc.equal(rows["_gen"], gen)).select(columns)
    return rows.append_column("_queue", pa.repeat(store.name, rows.num_rows))


def _of(gen: int) -> Callable[[LogFile], bool]:
    """Tell of a file whether it is of a partition."""
    return lambda file: file.gen == gen
