"""The tables of a front's queue, as this process reads them without Spark."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.columns import measures
from spark_queue.columns.arrow.rows import column_measures, column_of, sizes_of
from spark_queue.commands.rows import columns_of
from spark_queue.log.delta.commits import LogFile
from spark_queue.log.heads import StatusHead
from spark_queue.memory.journal.records import Entry
from spark_queue.overriding import override
from spark_queue.sql.arrow_look import ArrowLook
from spark_queue.sql.file_rows import log_of, once_more, parts_of, rows_of
from spark_queue.sql.look import newest_rows
from spark_queue.sql.operating import release_claimed
from spark_queue.state.store import Store
from spark_queue.stores.journal_tables import JournalTables, Touched, by_column
from spark_queue.stores.ownership import GivenBack
from spark_queue.upkeep import purge_items, rewriter

_ENTRY_COLUMNS = ("_seq", "_enqueued_at", "_expires_at", "_errors", "_body")


class ColumnTables(JournalTables):
    """Tables of a journaled queue, read column by column without Spark.

    Parameters
    ----------
    store : Store
        The queue, as its first reader sees it.

    Raises
    ------
    SparkNeededError
        When only Spark reads the tables.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._columns = columns_of(store)
        self._names = [column.name for column in self._columns]
        self.measure = measures.of_item(column_measures(self._columns))

    @override
    def values(self, puts: Sequence[Entry[Any]]) -> dict[str, pa.Array]:
        values = by_column(puts, self._names)
        return {column.name: column_of(values[column.name], column) for column in self._columns}

    @override
    def entries(self, first: int, last: int) -> list[Entry[Any]]:
        names = (*_ENTRY_COLUMNS, *self._names)
        found = rows_of(
            self._store, "queue", names, lambda file: file.may_have("_seq", first, last)
        )
        found = found.filter(_between(found["_seq"], first, last))
        counted = sizes_of(found, self._columns).to_pylist()
        return list(map(self._entry, found.to_pylist(), counted))

    @override
    def next_id(self, first: int) -> int | None:
        lowest = (file.ranges.get("_seq", (-math.inf,))[0] for file in self._files())
        nearest = min((seq for seq in lowest if seq >= first), default=math.inf)
        seqs = rows_of(
            self._store, "queue", ("_seq",), lambda file: file.may_have("_seq", first, nearest)
        )["_seq"]
        found: int | None = pc.min(seqs.filter(pc.greater_equal(seqs, first))).as_py()
        return found

    @override
    def generations(self) -> list[tuple[int, int]]:
        firsts = [(file.gen, *file.ranges["_seq"]) for file in self._files() if file.ranges]
        others = rows_of(self._store, "queue", ("_gen", "_seq"), lambda file: not file.ranges)
        known = pa.table({"_gen": [it[0] for it in firsts], "_seq": [it[1] for it in firsts]})
        known = known.cast(pa.schema([("_gen", pa.int32()), ("_seq", pa.int64())]))
        whole = pa.concat_tables([known, others.select(["_gen", "_seq"])])
        first = whole.group_by("_gen").aggregate([("_seq", "min")])
        return sorted(zip(first["_seq_min"].to_pylist(), first["_gen"].to_pylist(), strict=True))

    @override
    def origins(self, passed: int) -> dict[str, int]:
        names = ("_body", "_seq")
        found = rows_of(self._store, "queue", names, lambda file: file.may_have("_seq", passed + 1))
        found = found.filter(
            pc.and_(pc.greater(found["_seq"], passed), pc.is_valid(found["_body"]))
        )
        return dict(zip(found["_body"].to_pylist(), found["_seq"].to_pylist(), strict=True))

    @override
    def last_step(self, seq: int) -> int:
        # The step before that of the next item.
        following = self.next_id(seq + 1)
        if following is None:
            return self._store.queue_head().step
        found = rows_of(
            self._store,
            "queue",
            ("_seq", "_step"),
            lambda file: file.may_have("_seq", following, following),
        )
        step: int = found.filter(pc.equal(found["_seq"], following))["_step"][0].as_py()
        return step - 1

    @override
    def ids_after(self, step: int, last: int) -> list[int]:
        found = rows_of(
            self._store,
            "queue",
            ("_seq", "_step"),
            lambda file: file.may_have("_step", step + 1) and file.may_have("_seq", most=last),
        )
        is_it = pc.and_(pc.greater(found["_step"], step), pc.less_equal(found["_seq"], last))
        ids: list[int] = found.filter(is_it)["_seq"].to_pylist()
        return ids

    @override
    def find_touched(self, place: Store, head: StatusHead) -> list[Touched]:
        names = ("_seq", "_state", "_attempts")
        found = newest_rows(ArrowLook, place, head, "newest_rows", names)
        return list(map(Touched, *(column.to_pylist() for column in found.columns)))

    @override
    def bytes_of(
        self, place: Store, passed: int, done: Collection[int], back: Collection[int]
    ) -> int:
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

    @override
    def release_claimed(self, place: Store, head: StatusHead) -> GivenBack:
        return release_claimed(ArrowLook, place, head)

    @override
    def tidy(self, retention: timedelta | None, archive_to: str | None) -> None:
        # Files are merged by a thread beside the steps.
        if retention is not None:
            by = rewriter.REWRITER
            archive = archive_to and by.open_archive(self._store, archive_to)
            purge_items.drop_generations(self._store, retention, by, archive or None)

    def _files(self) -> list[LogFile]:
        return [file for file in log_of(self._store, "queue").files() if file.gen >= 0]

    def _entry(self, row: dict[str, Any], size: int) -> Entry[Any]:
        values = {name: row[name] for name in self._names}
        return Entry(
            id=row["_seq"],
            item=values if len(values) > 1 else values[self._names[0]],
            added_at=row["_enqueued_at"],
            size=size,
            expires_at=row["_expires_at"],
            errors=row["_errors"] or 0,
            origin=row["_body"],
        )


def of(store: Store) -> ColumnTables:
    """Return the tables of a queue."""
    return ColumnTables(store)


def _between(seqs: pa.ChunkedArray, first: int, last: int) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(seqs, first), pc.less_equal(seqs, last))
