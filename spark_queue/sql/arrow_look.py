"""Questions about the items of a queue, answered in this process over its files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.columns.arrow.rows import sizes_of
from spark_queue.log.delta.commits import LogFile
from spark_queue.log.schema import CONFIG, ITEM, RENEWAL, user_names
from spark_queue.log.step_events import LogName
from spark_queue.overriding import override
from spark_queue.sql import log_rows
from spark_queue.sql.database import Database
from spark_queue.sql.file_rows import (
    beside,
    files_of,
    having,
    log_of,
    once_more,
    parts_of,
    rows_of,
    user_fields,
)
from spark_queue.sql.log_rows import plain
from spark_queue.sql.look import CONFIGURED, ENTERED, MOVED, MOVES, VIEWED, QueueLook
from spark_queue.sql.where import choose

#: Items that are looked at together where they need not be all: a kilobyte each.
_PART = 250_000

_SIZED = ("_seq", "_step", "_enqueued_at")


class ArrowLook(QueueLook[pa.Table]):
    """Views of a queue in this process, over Arrow tables.

    Raises
    ------
    SparkNeededError
        When only Spark reads the logs, or they have more rows than may be read.
    """

    logs = log_rows
    _items: pa.Table
    _seqs: tuple[float, float] | None = None
    """The first of the items that are looked at, and the last."""

    @override
    def in_parts(self) -> Iterator[ArrowLook]:
        ends = self._ends_of_parts()
        if not ends:
            yield self
            return
        # In this order: what a status step moves has entered by then.
        moved, entered = self.status_step, self.queue_step
        moved = self.store.status_head().step if moved is None else moved
        entered = self.store.queue_head().step if entered is None else entered
        options: Any = {"since": self.since, "moved_since": self.moved_since, "asked": self._asked}
        options |= {"has_values": self.has_values, "most": self.most}
        for first, end in pairwise(ends):
            with ArrowLook(self.store, steps=(entered, moved), **options) as part:
                part._seqs = (first, end - 1)
                yield part

    def _ends_of_parts(self) -> list[float]:
        """Return the first seq of each part and the end of all; empty for a single part."""
        files = files_of(log_of(self.store, "queue"), ITEM)
        count = sum(file.rows for file in files) / _PART
        if self.seq is not None or not 1 < count < math.inf:
            return []
        if any("_seq" not in file.ranges for file in files):
            return []
        first = min(file.ranges["_seq"][0] for file in files)
        last = max(file.ranges["_seq"][1] for file in files)
        width = -(-(last - first + 1) // math.ceil(count))
        return [-math.inf, *range(first + width, last + 1, width), math.inf]

    @override
    def join(self, parts: Iterable[pa.Table], names: Sequence[str] = ()) -> pa.Table:
        return pa.concat_tables(part.select(list(names)) if names else part for part in parts)

    def _start(self) -> Database:
        log_of(self.store, "queue")
        return Database({})

    @override
    def entries(self, kind: str) -> pa.Table:
        # The seq leads to the user's columns.
        is_shown = kind == ITEM and self.has_values
        users = user_names(self.store.columns()) if is_shown else []
        rows = self._rows("queue", (*ENTERED, *users), kind, self.since, self.queue_step)
        if is_shown:
            self._items = rows
        return plain(rows.select(ENTERED)).append_column("own", rows["_seq"])

    @override
    def moves(self) -> pa.Table:
        parts = (
            self._rows("status", MOVES, kind, self.moved_since, self.status_step)
            for kind in (ITEM, RENEWAL)
        )
        return plain(pa.concat_tables(parts))

    def _rows(
        self, which: LogName, names: Sequence[str], kind: str, since: int, step: int | None
    ) -> pa.Table:
        """Return the rows of a kind that are looked at."""
        seqs = self._seqs if self.seq is None else (self.seq, self.seq)
        bounds: dict[str, tuple[float, float]]
        bounds = {"_step": (since + 1, math.inf if step is None else step)}
        if seqs is not None and kind != RENEWAL:
            bounds["_seq"] = seqs

        def may_matter(file: LogFile) -> bool:
            return all(file.may_have(name, *ends) for name, ends in bounds.items())

        def read() -> pa.Table:
            parts = parts_of(self.store, which, names, may_matter, kind=kind, most=self.most)
            return pa.concat_tables(_within(rows.select(list(names)), bounds) for rows in parts)

        return once_more(read)

    @override
    def step_rows(self, step: int) -> pa.Table:
        log = log_of(self.store, "status")
        files = [file for file in log.files() if file.may_have("_step", step, step)]
        rows = log.rows_of(files, MOVES)
        return plain(rows.filter(pc.equal(rows["_step"], step)))

    @override
    def configs(self) -> pa.Table:
        log, names = log_of(self.store, "status"), ("_kind", *CONFIGURED)
        rows = once_more(lambda: log.rows_of(files_of(log, CONFIG), names))
        rows = rows.filter(pc.equal(rows["_kind"], CONFIG)).select(CONFIGURED)
        if self.status_step is not None:
            rows = rows.filter(pc.less_equal(rows["_step"], self.status_step))
        return plain(rows)

    @override
    def item_sizes(self) -> pa.Table:
        fields = user_fields(self.store)
        names = (*_SIZED, *(field.name for field in fields))
        open_items = self.database.table("with_turn")["seq"] if "with_turn" in self._there else None
        may_matter = None if open_items is None else having(open_items)
        rows = rows_of(self.store, "queue", names, may_matter)
        meant = pc.greater(rows["_step"], self.since)
        if open_items is not None:
            meant = pc.and_(meant, pc.is_in(rows["_seq"], open_items.combine_chunks()))
        rows = rows.filter(meant)
        return plain(rows.select(_SIZED)).append_column("bytes", sizes_of(rows, fields))

    @override
    def show(self, found: pa.Table, columns: Sequence[str]) -> pa.Table:
        kinds = {name: VIEWED.arrow.field(name).type for name in columns if name != "log"}
        if "own" in found.column_names and not _is_in_order(found["seq"].combine_chunks()):
            found = found.sort_by("seq")
        shown = [
            found[name.removeprefix("_")].cast(kinds.get(name, pa.string())) for name in columns
        ]
        if not self.has_values or "own" not in found.column_names:
            return pa.table(shown, names=list(columns))
        items = self._items.select(["_seq", *user_names(self.store.columns())])
        # Mostly all of them are shown, in their order: a copy takes long.
        shows_all = items["_seq"].equals(found["own"])
        own = (items if shows_all else beside(items, found["own"])).drop_columns("_seq")
        return pa.table([*own.columns, *shown], names=[*own.column_names, *columns])

    @override
    def choose(self, found: pa.Table, where: Any) -> pa.Table:
        return choose(self.store, found, where)

    @override
    def find_selected(self, where: Any) -> pa.Table:
        steps = (self.queue_step, self.status_step)
        with ArrowLook(self.store, steps=steps, asked=self._asked) as look:
            return look.facts_of(look.choose(look.view("status"), where), ("_seq",))

    @override
    def facts_of(self, found: pa.Table, names: Sequence[str] = MOVED) -> pa.Table:
        return plain(found.select(list(names)))

    @override
    def evaluate(self, found: pa.Table) -> pa.Table:
        return found

    @override
    def sample(self, found: pa.Table, names: Sequence[str], count: int) -> list[Mapping[str, Any]]:
        shown = found.slice(0, count)
        others = [name for name in names if name not in shown.column_names]
        if others:
            own = rows_of(self.store, "queue", ("_seq", *others), having(shown["_seq"]))
            own = beside(own, shown["_seq"]).select(others)
            shown = pa.table([*shown.columns, *own.columns], [*shown.column_names, *others])
        rows: list[Mapping[str, Any]] = shown.select(list(names)).to_pylist()
        return rows

    @override
    def rename(self, found: pa.Table, names: Mapping[str, str], nothing: str | None) -> pa.Table:
        users = user_names(self.store.columns())
        rows = found.select([*users, *names.values()]).rename_columns([*users, *names])
        if nothing is None:
            return rows
        at = rows.schema.get_field_index(nothing)
        return rows.set_column(at, nothing, pa.nulls(rows.num_rows, rows.schema.field(at).type))


def _within(rows: pa.Table, bounds: Mapping[str, tuple[float, float]]) -> pa.Table:
    """Return the rows whose values lie between those of each column."""
    tests = [
        pc.greater_equal(rows[name], int(n)) for name, (n, _) in bounds.items() if n > -math.inf
    ]
    tests += [pc.less_equal(rows[name], int(n)) for name, (_, n) in bounds.items() if n < math.inf]
    return rows.filter(reduce(pc.and_, tests)) if tests else rows


def _is_in_order(seqs: pa.Array) -> bool:
    return bool(pc.all(pc.less(seqs[:-1], seqs[1:])).as_py()) if len(seqs) else True
