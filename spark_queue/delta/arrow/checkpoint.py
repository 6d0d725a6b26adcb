"""Rows of a status log's checkpoint, in Arrow, as Spark writes them.

It is written down in two passes, so that of what is over no more than a few columns are in memory:
the first finds which row of which item is its newest and still counts, the second reads those. The
item log is gone through file by file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow.fold import gathered, recent
from spark_queue.delta.arrow.rows import log_of
from spark_queue.delta.planner import StagedCheckpoint
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables import turns
from spark_queue.delta.tables.files import LogFile
from spark_queue.delta.tables.heads import Checkpoint, Pointer, StatusHead, following
from spark_queue.delta.tables.schema import (
    CLAIMED,
    ITEM,
    OPEN,
    OPEN_LANE,
    READY,
    SCHEDULE,
    SERVED,
    STATE,
    STATUS_COLUMNS,
)
from spark_queue.delta.tables.settings import Settings

#: How far ahead of the pointer an item may be that another weight puts behind it: a last digit.
_NEAR = 1e-3

#: What the first pass reads of a row.
_NARROW = ("_kind", "_gen", "_step", "_seq", "_state", "_priority", "_round", "_fair_key")

#: What says which turns were handed out.
_HANDED_OUT = ("_kind", "_gen", "_step", "_state", "_priority", "_fair_key", "_turn", "_overdue")

#: What is kept of an item that nothing has touched.
_PASSED = ("_seq", "_gen", "_attempts", *SCHEDULE)

_LINE = ["_priority", "_fair_key", "_overdue"]


def staged(
    store: Store,
    head: StatusHead,
    settings: Settings,
    changed: Settings | None = None,
    beside: pa.Table | None = None,
) -> StagedCheckpoint:
    """Fold the queue to a step, and keep what still matters; see :class:`Planner`."""
    queue_step = store.queue_head().step
    fold = _Fold(store, head, settings, changed or settings, queue_step)
    kept, touched = fold.kept()
    rows = pa.concat_tables([kept, fold.passed(touched)], promote_options="default")
    rows = rows.append_column("_item_gen", rows["_gen"])
    parts = [_with(rows, "_kind", OPEN)]
    if settings.config.fair_key is not None:
        parts.append(fold.served())
    whole = _with(pa.concat_tables(parts, promote_options="default"), "_gen", OPEN_LANE)
    whole = whole.sort_by([("_priority", "ascending"), ("_round", "ascending")])
    step = head.step + 1
    checkpoint = Checkpoint(step=step, queue_step=queue_step, pointers=head.pointers)
    if beside is not None:
        whole = pa.concat_tables([beside, whole], promote_options="default")
    return StagedCheckpoint(rows=whole, head=following(head, log_rows=0, checkpoint=checkpoint))


@dataclass(frozen=True, slots=True)
class _Fold:
    """A queue as of a step of its status log, and the settings until and from then on."""

    store: Store
    head: StatusHead
    before: Settings
    after: Settings
    queue_step: int

    # rule again: newest row of an item
    def kept(self) -> tuple[pa.Table, pa.ChunkedArray]:
        """Return the rows of touched items that still count, and the seqs of all of these."""
        rows = gathered(self._recent(_NARROW), _NARROW)
        rows = rows.filter(pc.is_in(rows["_kind"], pa.array([ITEM, OPEN])))
        newest = rows.group_by("_seq").aggregate([("_step", "max")])
        # Of an item a step has one row.
        at = _known_of(newest, rows)
        rows = rows.filter(pc.equal(rows["_step"], at))
        ahead = turns.are_ahead(rows, turns.turns_of(rows, self.after), self.head.pointers)
        live = pc.is_in(rows["_state"], pa.array([READY, CLAIMED]))
        counts = rows.filter(pc.or_(live, pc.fill_null(ahead, False))).select(["_seq", "_step"])
        return self._whole(counts), newest["_seq"]

    def passed(self, touched: pa.ChunkedArray) -> pa.Table:
        """Return items that nothing has touched, and the order has passed."""
        log = log_of(self.store, "queue")
        names = ("_kind", "_gen", "_step", "_seq", "_errors", *SCHEDULE)
        files = [file for file in log.files() if file.gen >= 0 and self._may_be_near(file)]
        known = touched.combine_chunks()
        parts = [self._passed(log.rows_of([file], names), known) for file in files]
        nothing = STATUS_COLUMNS.arrow.empty_table().select([*_PASSED, "_state", "_losses"])
        return pa.concat_tables([nothing, *parts], promote_options="default")

    def served(self) -> pa.Table:
        """Return what each line was served: its highest turn, and its highest overdue one."""
        parts = (_handed_out(rows) for rows in self._recent(_HANDED_OUT))
        rows = _highest(gathered(map(_highest, parts), (*_LINE, "_turn")))
        return _with(_with(rows, "_turn", self._stretched(rows)), "_kind", SERVED)

    def _recent(self, names: tuple[str, ...]) -> Iterator[pa.Table]:
        return recent(self.store, self.head, names)

    def _whole(self, counts: pa.Table) -> pa.Table:
        """Return the rows of some items at their newest step."""
        names = ("_kind", *STATE)
        found = [
            rows.filter(pc.equal(rows["_step"], _known_of(counts, rows, "_step")))
            for rows in self._recent(names)
        ]
        found = [rows.drop_columns(["_kind", "_step"]) for rows in found]
        nothing = STATUS_COLUMNS.arrow.empty_table().select([n for n in STATE if n != "_step"])
        return pa.concat_tables([nothing, *found], promote_options="default")

    def _passed(self, rows: pa.Table, touched: pa.Array) -> pa.Table:
        since = self.store.registered().since_step
        is_item = pc.and_(pc.equal(rows["_kind"], ITEM), pc.greater(rows["_step"], since))
        rows = rows.filter(pc.and_(is_item, pc.less_equal(rows["_step"], self.queue_step)))
        rows = rows.filter(pc.and_(self._is_fresh(rows), self._is_passed(rows)))
        rows = rows.filter(pc.invert(pc.is_in(rows["_seq"], touched)))
        count = rows.num_rows
        made = {
            "_attempts": pc.fill_null(rows["_errors"], 0),
            "_state": pa.repeat(pa.scalar(READY), count),
            "_losses": pa.repeat(pa.scalar(0, pa.int32()), count),
        }
        kept = {name: rows[name] for name in _PASSED if name != "_attempts"}
        return pa.table(kept | made)

    def _is_fresh(self, rows: pa.Table) -> pa.ChunkedArray:
        """Tell of items whether no checkpoint knows them, and they are not far ahead."""
        tags = turns.turns_of(rows, self.before)
        limit = pc.add(turns.pointer_turns(rows, self.head.pointers), _NEAR)
        unknown = turns.are_unpassed(rows, tags, self.head.checkpoint)
        return pc.and_(unknown, pc.less_equal(tags, limit))

    def _is_passed(self, rows: pa.Table) -> pa.ChunkedArray:
        """Tell of items whether the order has passed them, by the settings to come."""
        tags = turns.turns_of(rows, self.after)
        return pc.invert(turns.are_ahead(rows, tags, self.head.pointers))

    def _may_be_near(self, file: LogFile) -> bool:
        """Tell whether a file may have items that :meth:`passed` is about.

        At a priority that the order has not begun with it has passed nothing.
        """
        made = self.head.checkpoint
        is_later = file.may_have("_step", made.queue_step + 1, self.queue_step)
        bounds = _bounds(self.before, made.pointers, self.head.pointers)
        return any(
            file.may_have("_priority", priority, priority)
            and (is_later or file.may_have("_round", least))
            and file.may_have("_round", most=most)
            for priority, (least, most) in bounds.items()
        )

    # rule again: weight of a key
    def _stretched(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return turns that were handed out where they are at another weight: around the pointer.

        One key after the other, as few have another weight.
        """
        moved, pointer = rows["_turn"], turns.pointer_turns(rows, self.head.pointers)
        for key, stretch in self.after.stretches.items():
            old = self.before.stretch(key).weight
            if stretch.weight != old:
                off = pc.multiply(pc.subtract(rows["_turn"], pointer), old / stretch.weight)
                is_it = pc.fill_null(pc.equal(rows["_fair_key"], key), False)
                moved = pc.if_else(is_it, pc.add(pointer, off), moved)
        return moved


def _known_of(known: pa.Table, rows: pa.Table, column: str = "_step_max") -> pa.Array:
    """Return what is known of the item of each row; null where nothing is."""
    at = pc.index_in(rows["_seq"], known["_seq"].combine_chunks())
    return known[column].combine_chunks().take(at.combine_chunks())


def _bounds(
    settings: Settings, made: Mapping[int, Pointer], reached: Mapping[int, Pointer]
) -> dict[int, tuple[float, float]]:
    """Return, by priority, the stored tags between two places of the order, and a little more."""
    return {
        priority: (
            settings.least_tag(priority, made.get(priority, (0.0, 0))[0]),
            settings.highest_tag(priority, turn + _NEAR),
        )
        for priority, (turn, _) in reached.items()
    }


# rule again: turns handed out
def _handed_out(rows: pa.Table) -> pa.Table:
    claimed = pc.and_(pc.equal(rows["_kind"], ITEM), pc.equal(rows["_state"], CLAIMED))
    given = pc.or_(pc.equal(rows["_kind"], SERVED), pc.fill_null(claimed, False))
    said = pc.and_(pc.is_valid(rows["_turn"]), pc.is_valid(rows["_overdue"]))
    return rows.filter(pc.and_(given, said)).select([*_LINE, "_turn"])


def _highest(rows: pa.Table) -> pa.Table:
    found = rows.group_by(_LINE).aggregate([("_turn", "max")])
    return found.rename_columns({"_turn_max": "_turn"})


def _with(rows: pa.Table, column: str, value: object) -> pa.Table:
    """Return rows with a column of values, or of one value."""
    kind = STATUS_COLUMNS.arrow.field(column).type
    if not isinstance(value, pa.Array | pa.ChunkedArray):
        value = pa.repeat(pa.scalar(value, kind), rows.num_rows)
    if column not in rows.column_names:
        return rows.append_column(column, value)
    return rows.set_column(rows.schema.get_field_index(column), column, value)
