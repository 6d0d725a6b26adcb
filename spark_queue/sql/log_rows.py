"""Rows of both logs as tables for views: names without ``_``, times in microseconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.log.delta.commits import LogFile
from spark_queue.log.delta.log_files import RowFilter
from spark_queue.log.heads import Pointer, StatusHead
from spark_queue.log.schema import (
    CLAIMED,
    ENTERED_WITH,
    ITEM,
    OPEN_LANE,
    QUEUE_COLUMNS,
    RATE,
    RECENT,
    RENEWAL,
    RENEWAL_LANE,
    SCHEDULE,
    STATUS_COLUMNS,
)
from spark_queue.log.settings import Settings
from spark_queue.log.step_events import LogName
from spark_queue.sql.database import most_rows
from spark_queue.sql.file_rows import having, log_of, once_more
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


#: What is read of an item that waits, of its place alone, and of its times alone.
ENTERED = ("_seq", "_gen", "_step", *SCHEDULE, "_errors")
PLACES = ("_seq", "_step", "_priority", "_round", "_fair_key", "_group_key", "_chain")
TIMES = ("_seq", *ENTERED_WITH)
DEBTS = ("_kind", "_step", "_at", "_by", "_key", "_tat", "_refunds", "_body")


class TooManyRowsError(Exception):
    """A decision would read more rows than this process takes."""


def states_of(store: Store, head: StatusHead) -> pa.Table:
    """Return a status log's rows of the checkpoint, and of steps since.

    Raises
    ------
    TooManyRowsError
        When there are more than :func:`~spark_queue.sql.database.most_rows`.
    """
    first, last = head.checkpoint.step, head.step

    def may(file: LogFile) -> bool:
        if file.gen == OPEN_LANE:
            return file.may_have("_step", first, first)
        return _has_moves(file) and file.may_have("_step", first + 1, last)

    def counts(rows: pa.Table) -> pa.ChunkedArray:
        step, is_open = rows["_step"], pc.equal(rows["_gen"], OPEN_LANE)
        since = pc.and_(pc.greater(step, first), pc.less_equal(step, last))
        return pc.if_else(is_open, pc.equal(step, first), since)

    return _rows(store, "status", (*RECENT, "_item_gen"), may, counts)


def debts_of(store: Store, head: StatusHead) -> pa.Table:
    """Return rows of what keys owe: those of the checkpoint, and of steps since."""
    first, last = head.checkpoint.step, head.step

    def may(file: LogFile) -> bool:
        is_theirs = file.gen in (OPEN_LANE, RENEWAL_LANE)
        return is_theirs and file.may_have("_step", first, last)

    log = log_of(store, "status")
    rows = log.rows_of([file for file in log.files() if may(file)], DEBTS)
    is_since = pc.and_(pc.greater_equal(rows["_step"], first), pc.less_equal(rows["_step"], last))
    return rows.filter(pc.and_(pc.equal(rows["_kind"], RATE), is_since))


def with_step(states: pa.Table, rows: pa.Table, step: int) -> pa.Table:
    """Return rows of a status log, with those of its next step."""
    new = plain(rows).select(states.column_names)
    at = new.schema.get_field_index("step")
    new = new.set_column(at, "step", pa.repeat(pa.scalar(step, pa.int64()), new.num_rows))
    return pa.concat_tables([states, new.cast(states.schema)])


@dataclass(frozen=True, slots=True)
class Within:
    """What is read of items that may wait, and how far ahead."""

    head: StatusHead
    settings: Settings
    reach: float | None
    """How many turns ahead of the order of service; ``None`` for all."""
    names: Sequence[str] = ENTERED
    wanted: RowFilter | None = None
    """Which of them are read, where not all are."""
    before: int | None = None
    """The seq before which they are, where that is said."""

    def bounds(self, priority: int) -> tuple[float, float]:
        """Return bounds of the stored tags of a priority."""
        return bounds_of(self.head, self.settings, priority, self.reach)


def entered_of(store: Store, within: Within) -> pa.Table:
    """Return items that may wait within reach, and were not touched before the checkpoint.

    Raises
    ------
    TooManyRowsError
        When there are more than :func:`~spark_queue.sql.database.most_rows`.
    """
    newest, since = store.queue_head(), store.registered().since_step
    ends = {priority: within.bounds(priority) for priority in newest.tops}
    later = within.head.checkpoint.queue_step + 1
    last = math.inf if within.before is None else within.before - 1

    def may(file: LogFile) -> bool:
        if file.gen < 0 or not file.may_have("_step", since + 1, newest.step):
            return False
        if not file.may_have("_seq", most=last):
            return False
        is_later = file.may_have("_step", later)
        return any(
            file.may_have("_priority", priority, priority)
            and file.may_have("_round", -math.inf if is_later else least, most)
            for priority, (least, most) in ends.items()
        )

    def counts(rows: pa.Table) -> pa.ChunkedArray:
        # The rows of a file are as many as all that a claim looks at, many times over.
        kept = [_between(rows, priority, later, *bounds) for priority, bounds in ends.items()]
        found = reduce(pc.or_, kept)
        return found if within.before is None else pc.and_(found, pc.less_equal(rows["_seq"], last))

    return _rows(store, "queue", within.names, may, counts if ends else None, within.wanted)


def _between(
    rows: pa.Table, priority: int, later: int, least: float, most: float
) -> pa.ChunkedArray:
    """Tell which rows are of a priority and between its bounds; a later step has the upper one."""
    tag = rows["_round"]
    passed = pc.and_(pc.less(tag, least), pc.less(rows["_step"], later))
    there = pc.and_(pc.equal(rows["_priority"], priority), pc.less_equal(tag, most))
    return pc.and_not(there, passed)


def items_of(store: Store, found: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return columns of the rows by which a table's items entered."""
    seqs = found["seq"]
    if not len(seqs):
        return plain(_schema_of(store, "queue", names).empty_table())
    may = having(seqs)
    wanted = pc.unique(seqs)
    return _rows(
        store,
        "queue",
        names,
        lambda file: file.gen >= 0 and may(file),
        lambda rows: pc.is_in(rows["_seq"], wanted),
    )


def with_output(store: Store, leases: Collection[int]) -> dict[int, str]:
    """Return the claims, by their leases, that name an output."""
    wanted = sorted(leases)
    among = pa.array(wanted, pa.int64())

    def grants(rows: pa.Table) -> pa.ChunkedArray:
        is_item, is_claim = pc.equal(rows["_kind"], ITEM), pc.equal(rows["_state"], CLAIMED)
        named = pc.and_(pc.is_in(rows["_step"], among), pc.is_valid(rows["_body"]))
        return pc.and_kleene(pc.and_kleene(is_item, is_claim), named)

    names = ("_kind", "_state", "_step", "_claim_id", "_body")
    found = _rows(
        store,
        "status",
        names,
        lambda file: file.gen >= 0 and file.may_have_one("_step", wanted),
        grants,
    )
    return dict(zip(found["step"].to_pylist(), found["claim_id"].to_pylist(), strict=True))


def grants_of(store: Store, head: StatusHead, lease: int) -> pa.Table:
    """Return the rows of a status log from a lease on.

    Raises
    ------
    TooManyRowsError
        When there are more than :func:`~spark_queue.sql.database.most_rows`.
    """

    def counts(rows: pa.Table) -> pa.ChunkedArray:
        steps = pc.and_(
            pc.greater_equal(rows["_step"], lease), pc.less_equal(rows["_step"], head.step)
        )
        return pc.and_(pc.is_in(rows["_kind"], pa.array([ITEM, RENEWAL])), steps)

    return _rows(
        store,
        "status",
        RECENT,
        lambda file: _has_moves(file) and file.may_have("_step", lease, head.step),
        counts,
    )


def outcomes_of(outcomes: DataFrame) -> pa.Table:
    """Return a frame's outcomes of items.

    Raises
    ------
    TooManyRowsError
        When there are more than :func:`~spark_queue.sql.database.most_rows`.
    """
    if outcomes.count() > most_rows():
        raise TooManyRowsError
    return plain(outcomes.select("_seq", "outcome", "error", "after").toArrow())


def status_rows(found: pa.Table, said: Mapping[str, object]) -> pa.Table:
    """Return rows of a view in the form of the status log.

    Parameters
    ----------
    said : mapping
        By column the value that all rows have, or a value and the state of those that have it.
    """
    count, columns = found.num_rows, dict(zip(found.column_names, found.columns, strict=True))
    arrays = []
    for field in STATUS_COLUMNS.arrow:
        name = field.name.removeprefix("_")
        if name in said:
            arrays.append(_repeat(said[name], field.type, found))
        elif name in columns:
            arrays.append(columns[name].cast(field.type))
        else:
            arrays.append(pa.nulls(count, field.type))
    return pa.table(arrays, schema=STATUS_COLUMNS.arrow)


def micros(at: datetime) -> int:
    """Return an instant in microseconds since 1970."""
    return int(pa.scalar(at, pa.timestamp("us", "UTC")).value)


def micros_of(span: timedelta | None) -> int | None:
    """Return a duration in microseconds."""
    return None if span is None else span // timedelta(microseconds=1)


def joined(rows: pa.Table, others: pa.Table) -> pa.Table:
    """Return rows of a status log and others; a missing column is null."""
    return pa.concat_tables([rows, others], promote_options="default")


def _repeat(value: object, kind: pa.DataType, found: pa.Table) -> pa.Array:
    """Return one value for each row, or for those of a state."""
    if not isinstance(value, tuple):
        return pa.repeat(pa.scalar(value, kind), found.num_rows)
    one, state = value
    has_it = pc.equal(found["state"], state)
    return pc.if_else(has_it, pa.scalar(one, kind), pa.scalar(None, kind))


def bounds_of(
    head: StatusHead, settings: Settings, priority: int, reach: float | None
) -> tuple[float, float]:
    """Return bounds of the stored tags of a priority that a claim looks at."""
    passed = head.checkpoint.pointers.get(priority)
    least = -math.inf if passed is None else settings.least_tag(priority, passed[0])
    if reach is None:
        return least, math.inf
    turn, _ = head.pointers.get(priority, (0.0, 0))
    return least, settings.highest_tag(priority, turn + reach)


def _has_moves(file: LogFile) -> bool:
    """Tell whether a file of a status log has rows of items, or renewals of their leases."""
    return file.gen >= 0 or file.gen == RENEWAL_LANE


def _rows(
    store: Store,
    which: LogName,
    names: Sequence[str],
    may: Callable[[LogFile], bool],
    counts: Callable[[pa.Table], pa.ChunkedArray] | None,
    wanted: RowFilter | None = None,
) -> pa.Table:
    """Return rows of a log, of files that may matter."""
    log, schema = log_of(store, which), _schema_of(store, which, names)

    def parts() -> Iterator[pa.Table]:
        read, most = 0, most_rows()
        for rows in log.parts_of([file for file in log.files() if may(file)], names, may, wanted):
            found = rows if counts is None else _rows_that_count(rows, counts(rows))
            read += found.num_rows
            if read > most:
                raise TooManyRowsError
            yield found

    return once_more(lambda: plain(pa.concat_tables([schema.empty_table(), *parts()])))


def _rows_that_count(rows: pa.Table, counts: pa.ChunkedArray) -> pa.Table:
    """Return the rows that count; they are not copied where all do."""
    return rows if pc.sum(counts).as_py() == rows.num_rows else rows.filter(counts)


def _schema_of(store: Store, which: LogName, names: Sequence[str]) -> pa.Schema:
    return log_of(store, which).rows_of([], names).schema


def plain(rows: pa.Table) -> pa.Table:
    """Return rows with names without ``_``, and times as numbers."""
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in rows.columns
    ]
    return pa.table(columns, names=[name.removeprefix("_") for name in rows.column_names])


#: The times of items if all rows have them; and items if nothing was enqueued.
NO_TIMES = plain(STATUS_COLUMNS.arrow.empty_table().select(TIMES))
NOTHING_ENTERED = plain(QUEUE_COLUMNS.arrow.empty_table().select(ENTERED))

_WEIGHTS = pa.schema(
    [
        ("fair_key", pa.string()),
        ("priority", pa.int32()),
        ("weight", pa.float64()),
        ("pin_tag", pa.float64()),
        ("pin_turn", pa.float64()),
    ]
)

_POINTERS = pa.schema(
    [
        ("priority", pa.int32()),
        ("turn", pa.float64()),
        ("seq", pa.int64()),
        ("checkpoint_turn", pa.float64()),
        ("checkpoint_seq", pa.int64()),
    ]
)


def weights_of(settings: Settings, priorities: Collection[int]) -> pa.Table:
    """Return how the stored tags of weighted keys map to turns, at each priority."""
    rows = []
    for key, stretch in settings.stretches.items():
        for priority in priorities:
            tag, turn = stretch.pins.get(priority, (0.0, 0.0))
            pins = {"pin_tag": tag, "pin_turn": turn}
            rows.append({"fair_key": key, "priority": priority, "weight": stretch.weight, **pins})
    return pa.Table.from_pylist(rows, _WEIGHTS)


def pointers_of(
    known: Mapping[int, Pointer], before: Mapping[int, Pointer], priorities: Collection[int]
) -> pa.Table:
    """Return where the order of service stands at each priority, and where it stood before."""
    rows = [
        (p, *known.get(p, (0.0, 0)), *before.get(p, (0.0, 0)))
        for p in sorted({*priorities, *known, *before})
    ]
    return pa.Table.from_pylist(
        [dict(zip(_POINTERS.names, row, strict=True)) for row in rows], _POINTERS
    )
