"""Reads and writes of a front in its queue's tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.columns import measures
from spark_queue.columns.arrow.rows import column_measures, column_of, sizes_of
from spark_queue.columns.measures import Measure
from spark_queue.commands.rows import columns_of
from spark_queue.log.delta.commits import LogFile
from spark_queue.log.heads import StatusHead
from spark_queue.log.schema import READY, TERMINAL
from spark_queue.log.session_options import PlainSession
from spark_queue.memory.journal.records import Entry, ReaderOffset
from spark_queue.sql.arrow_look import ArrowLook
from spark_queue.sql.file_rows import log_of, once_more, parts_of, rows_of
from spark_queue.sql.look import newest_rows
from spark_queue.sql.operating import release_claimed
from spark_queue.state.store import Store
from spark_queue.stores.ownership import GivenBack
from spark_queue.upkeep import purge_items, rewriter

#: Columns of an item beside the user's.
ENTRY_COLUMNS = ("_seq", "_enqueued_at", "_expires_at", "_errors", "_body")


@dataclass(frozen=True, slots=True)
class Touched:
    """What the newest row of an item says in the log of a reader."""

    seq: int
    state: str
    attempts: int


def by_column(puts: Sequence[Entry[Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of items: with one column an item is its value."""
    if len(names) == 1:
        return {names[0]: [put.item for put in puts]}
    return {name: [put.item[name] for put in puts] for name in names}


class JournalTables:
    """The tables of a queue, as a front reads them: column by column, or by Spark.

    Parameters
    ----------
    store : Store
        The queue, as its first reader sees it.

    Raises
    ------
    SparkNeededError
        When only Spark reads the tables.
    """

    measure: Measure
    """Returns how many bytes an item counts; refuses what the columns cannot hold."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._columns = columns_of(store)
        self._names = [column.name for column in self._columns]
        self.measure = measures.of_item(column_measures(self._columns))

    def values(self, puts: Sequence[Entry[Any]]) -> dict[str, pa.Array]:
        """Return the user's columns of items that fit."""
        values = by_column(puts, self._names)
        return {column.name: column_of(values[column.name], column) for column in self._columns}

    def entries(self, first: int, last: int) -> list[Entry[Any]]:
        """Return the items from an id to another, in any order."""
        names = (*ENTRY_COLUMNS, *self._names)
        found = self._rows(names, lambda file: file.may_have("_seq", first, last))
        found = found.filter(_between(found["_seq"], first, last))
        counted = sizes_of(found, self._columns).to_pylist()
        items = found.select(self._names).to_pylist()
        return list(map(entry_of, found.to_pylist(), items, counted))

    def next_id(self, first: int) -> int | None:
        """Return the lowest id of an item from one on; ``None`` where there is none."""
        lowest = (file.ranges.get("_seq", (-math.inf,))[0] for file in self._files())
        nearest = min((seq for seq in lowest if seq >= first), default=math.inf)
        seqs = self._rows(("_seq",), lambda file: file.may_have("_seq", first, nearest))["_seq"]
        found: int | None = pc.min(seqs.filter(pc.greater_equal(seqs, first))).as_py()
        return found

    def generations(self) -> list[tuple[int, int]]:
        """Return the first id of each generation, and its number."""
        firsts = [(file.gen, *file.ranges["_seq"]) for file in self._files() if file.ranges]
        others = self._rows(("_gen", "_seq"), lambda file: not file.ranges)
        known = pa.table({"_gen": [it[0] for it in firsts], "_seq": [it[1] for it in firsts]})
        known = known.cast(pa.schema([("_gen", pa.int32()), ("_seq", pa.int64())]))
        whole = pa.concat_tables([known, others.select(["_gen", "_seq"])])
        first = whole.group_by("_gen").aggregate([("_seq", "min")])
        return sorted(zip(first["_seq_min"].to_pylist(), first["_gen"].to_pylist(), strict=True))

    def origins(self, passed: int) -> dict[str, int]:
        """Return the items behind an id that replace another, by the name of that one."""
        found = self._rows(("_body", "_seq"), lambda file: file.may_have("_seq", passed + 1))
        found = found.filter(
            pc.and_(pc.greater(found["_seq"], passed), pc.is_valid(found["_body"]))
        )
        return dict(zip(found["_body"].to_pylist(), found["_seq"].to_pylist(), strict=True))

    def last_step(self, seq: int) -> int:
        """Return a step up to which all items have an id up to this one, and behind it none."""
        # The step before that of the next item.
        following = self.next_id(seq + 1)
        if following is None:
            return self._store.queue_head().step
        names = ("_seq", "_step")
        found = self._rows(names, lambda file: file.may_have("_seq", following, following))
        step: int = found.filter(pc.equal(found["_seq"], following))["_step"][0].as_py()
        return step - 1

    def ids_after(self, step: int, last: int) -> list[int]:
        """Return the ids up to one whose steps are later than a given step."""
        found = self._rows(
            ("_seq", "_step"),
            lambda file: file.may_have("_step", step + 1) and file.may_have("_seq", most=last),
        )
        is_it = pc.and_(pc.greater(found["_step"], step), pc.less_equal(found["_seq"], last))
        ids: list[int] = found.filter(is_it)["_seq"].to_pylist()
        return ids

    def find_touched(self, place: Store, head: StatusHead) -> list[Touched]:
        """Return what a reader's log has rows of."""
        names = ("_seq", "_state", "_attempts")
        found = newest_rows(ArrowLook, place, head, "newest_rows", names)
        return list(map(Touched, *(column.to_pylist() for column in found.columns)))

    def bytes_of(
        self, place: Store, passed: int, done: Collection[int], back: Collection[int]
    ) -> int:
        """Return how many bytes wait: of what lies behind an id and is not done, or came back."""
        # File by file: together they exceed the memory of a process.
        ended, returned = (pa.array(sorted(ids), pa.int64()) for ids in (done, back))
        names, among = ("_seq", *self._names), sorted(back)

        def may_count(file: LogFile) -> bool:
            return file.may_have("_seq", passed + 1) or file.may_have_one("_seq", among)

        def count() -> int:
            parts = parts_of(place, "queue", names, may_count)
            return sum(self._bytes_in(part, passed, ended, returned) for part in parts)

        return once_more(count)

    def _bytes_in(self, rows: pa.Table, passed: int, ended: pa.Array, returned: pa.Array) -> int:
        waits = pc.and_(pc.greater(rows["_seq"], passed), pc.invert(pc.is_in(rows["_seq"], ended)))
        rows = rows.filter(pc.or_(waits, pc.is_in(rows["_seq"], returned)))
        return int(pc.sum(sizes_of(rows, self._columns)).as_py() or 0)

    def release_claimed(self, place: Store, head: StatusHead) -> GivenBack:
        """Return the rows that give claimed items back, without a worker id, and how many."""
        return release_claimed(ArrowLook, place, head)

    def tidy(self, retention: timedelta | None, archive_to: str | None) -> None:
        """Drop what finished before the retention, and merge small files."""
        # Files are merged by a thread beside the steps.
        if retention is not None:
            by = rewriter.REWRITER
            archive = archive_to and by.open_archive(self._store, archive_to)
            purge_items.drop_generations(self._store, retention, by, archive or None)

    def _rows(self, names: Sequence[str], may_have: Callable[[LogFile], bool]) -> pa.Table:
        return rows_of(self._store, "queue", names, may_have)

    def _files(self) -> list[LogFile]:
        return [file for file in log_of(self._store, "queue").files() if file.gen >= 0]


def entry_of(row: Mapping[str, Any], values: Mapping[str, Any], size: int) -> Entry[Any]:
    """Return the item of a row: its values, or the one value of a queue with one column."""
    return Entry(
        id=row["_seq"],
        item=values if len(values) > 1 else next(iter(values.values())),
        added_at=row["_enqueued_at"],
        size=size,
        expires_at=row["_expires_at"],
        errors=row["_errors"] or 0,
        origin=row["_body"],
    )


def tables_of(store: Store) -> JournalTables:
    """Return who reads the tables of a store; nothing of Spark is imported where it is not it."""
    if isinstance(store.session, PlainSession):
        return JournalTables(store)
    tables: JournalTables = import_module("spark_queue.stores.journal_by_spark").of(store)
    return tables


def offset(tables: JournalTables, place: Store) -> ReaderOffset:
    """Return where a reader is: what it is done with, what it failed at, and how much waits."""
    head = place.status_head()
    facts = place.registered()
    rows = tables.find_touched(place, head)
    done = {row.seq for row in rows if row.state in TERMINAL}
    begins = _begin_of(place, facts.since_step)
    passed = max(begins, head.pointers.get(0, (0.0, begins))[1])
    behind = frozenset(seq for seq in done if seq > passed)
    back = [row.seq for row in rows if row.state == READY and row.seq <= passed]
    return ReaderOffset(
        reader=place.reader,
        name=facts.name,
        config=place.reader_config(),
        created_at=_instant(facts.at) or place.clock.now(),
        head=_head(passed, done, rows),
        done=behind,
        items=place.outstanding(head),
        bytes=tables.bytes_of(place, passed, behind, back),
        errors={row.seq: row.attempts for row in rows if row.state == READY and row.attempts},
    )


def _begin_of(store: Store, step: int) -> int:
    """Return the last id of the steps up to one."""
    if step == 0:
        return 0
    at = store.queue.head_at(step)
    return 0 if at is None else at.last_seq


def _head(passed: int, done: set[int], rows: Sequence[Touched]) -> int:
    """Return the highest id with everything up to it done; touched rows count by themselves."""
    open_before = [row.seq for row in rows if row.seq <= passed and row.seq not in done]
    head = min(open_before) - 1 if open_before else passed
    while head + 1 in done:
        head += 1
    return head


def _instant(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _between(seqs: pa.ChunkedArray, first: int, last: int) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(seqs, first), pc.less_equal(seqs, last))
