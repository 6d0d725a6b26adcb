"""Rows for enqueues by SQL: of batches, of the item log, and of their steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.errors import SparkNeededError
from spark_queue.log.delta.commits import LogFile
from spark_queue.log.delta.log_files import RowFilter
from spark_queue.log.heads import Pointer, QueueHead
from spark_queue.log.schema import GROUP, ITEM, KEY, META_LANE, QUEUE_COLUMNS, REFUSED, REFUSED_LANE
from spark_queue.log.settings import Settings
from spark_queue.sql import log_rows
from spark_queue.sql.decisions import RESTORED, Frame
from spark_queue.sql.file_rows import log_of, once_more, sizes_in
from spark_queue.sql.log_rows import TooManyRowsError
from spark_queue.state.request import EnqueueRules
from spark_queue.state.store import Store

#: What is read of an item that may hold a key, of a member of a group, and of the end of a line.
KEYED = (
    *("_seq", "_step", "_priority", "_round", "_fair_key", "_group_key"),
    *("_dedup_key", "_dedup_hash", "_enqueued_at", "_errors", "_chain", "_chain_at"),
)
MEMBER = ("_seq", "_step", "_priority", "_round", "_fair_key", "_group_key")
LINE = ("_priority", "_fair_key", "_round")

#: What a batch has of a row's columns.
BATCH = ("_priority", "_fair_key", "_group_key", "_cost", "_dedup_key", "_dedup_hash")

#: How many rows a part holds while a batch is sorted in memory.
_ROWS_A_PART = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Room of the fullest reader; ``None`` without a limit."""

    reader: str = ""
    items: int | None = None
    bytes: int | None = None

    def is_bounded(self) -> bool:
        """Tell whether there is any limit."""
        return self.items is not None or self.bytes is not None

    def within(self, reader: str, items: int | None, left: int | None) -> Room:
        """Return the smaller room, with a reader that has bounds of its own."""
        if items is None and left is None:
            return self
        return Room(reader=reader, items=_less(self.items, items), bytes=_less(self.bytes, left))


def _less(a: int | None, b: int | None) -> int | None:
    return min((n for n in (a, b) if n is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueState:
    """Inputs of the decision of an enqueue; see :meth:`admission.admit`."""

    store: Store
    before: QueueHead
    """The head of the step before."""
    pointers: Mapping[int, Pointer]
    """How far the order of service has come, by priority."""
    settings: Settings
    rules: EnqueueRules
    readers: Sequence[Store]
    """The queue as each of its readers sees it that claims."""
    now: datetime

    def has_one_line(self, names: Collection[str]) -> bool:
        """Return whether rows without dedup keys, of these columns, stand by their numbers."""
        config = self.settings.config
        is_new = self.rules.replacing is None and set(RESTORED).isdisjoint(names)
        return config.fair_key is None and config.priority is None and is_new

    def least_tags(self) -> dict[int, float]:
        """Return lower bounds of the stored tags ahead of the order, by priority."""
        turns = {p: self.pointers[p][0] for p in self.before.tops if p in self.pointers}
        least = {p: self.settings.least_tag(p, turn) for p, turn in turns.items()}
        return dict.fromkeys(self.before.tops, -math.inf) | least


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryBatch:
    """Rows of a frame, in the engine's form."""

    rows: Any
    """Without ``_``, by ``seq``: what is decided by, and what the engine keeps for itself."""
    given: Any
    """The rows with all of their columns."""
    count: int
    has_keys: bool

    def parts(self) -> int:
        """Return how many parts the rows need to be sorted in memory."""
        return -(-self.count // _ROWS_A_PART)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Decision about a batch, as tables of the engine."""

    items: Any
    """Rows of the batch with ``lowest``, their priority, and ``place``, the stored tag."""
    refused: Any | None
    """``seq``, ``duplicate_of`` and ``holder``."""
    line_ends: Any | None
    """``priority``, ``fair_key`` and ``round``."""
    group_ends: Any | None
    """``group_key``, ``seq`` and the place of the last member of each group."""
    replacing: Any | None = None
    """Of rows that replace others: ``seq``, and what the log says of that."""
    tops: Mapping[int, float]
    """The highest tag at each priority."""


class EntryRows(Protocol):
    """Rows of a frame, and of the item log for it, as tables of an engine."""

    def batch_of(self, frame: Frame, entry: EnqueueState, room: Room) -> EntryBatch:
        """Return the rows of a frame.

        Raises
        ------
        TooManyRowsError
            When they are too many for the engine, or not such as it takes.
        """

    def rows_by_number(self, frame: Frame, entry: EnqueueState) -> tuple[Any, int] | None:
        """Return a step's rows and their number, where nothing is decided but that.

        ``None`` where rows have dedup keys, or an order of service other than their numbers.
        """

    def keyed_of(self, entry: EnqueueState, batch: EntryBatch) -> Any:
        """Return items that may have a key of the batch: :data:`KEYED`."""

    def redriven_of(self, entry: EnqueueState, since: int) -> Any:
        """Return redriven items of later steps: ``origin`` and ``seq``."""

    def line_rows(self, entry: EnqueueState) -> Any:
        """Return ends of lines ahead of the order: :data:`LINE`."""

    def group_rows(self, entry: EnqueueState, groups: Any) -> Any:
        """Return rows of the last members of groups: :data:`MEMBER`."""

    def members_of(self, entry: EnqueueState, groups: Any) -> Any:
        """Return the items of groups that may be ahead of the order."""

    def there_of(self, entry: EnqueueState, members: Any) -> Any:
        """Return the ``seq`` of members that are in the log."""

    def step_rows(self, batch: EntryBatch, decided: Decided, entry: EnqueueState) -> Any:
        """Return the rows of a step in the form of the log."""


#: What a batch has of rows that were items before: null for others. Values are had by their place.
_OF_ITEMS = {"_origin": pa.int64(), "_round": pa.float64(), "_given": pa.int32()}


def batch_of(frame: Frame, entry: EnqueueState, room: Room) -> EntryBatch:
    """Return the rows of a frame as a batch."""
    rows = frame.rows
    if rows is None:
        raise TooManyRowsError
    sizes = None
    if room.bytes is not None:
        try:
            sizes = sizes_in(entry.store, rows)
        except SparkNeededError as exc:
            raise TooManyRowsError from exc
    return EntryBatch(
        rows=batch_rows(rows, sizes, entry),
        given=rows,
        count=rows.num_rows,
        has_keys=rows["_dedup_hash"].null_count < rows.num_rows,
    )


def rows_by_number(frame: Frame, entry: EnqueueState) -> None:
    """Return ``None``: a decision about rows that are here costs little."""
    del frame, entry


def batch_rows(rows: pa.Table, sizes: pa.Array | None, entry: EnqueueState) -> pa.Table:
    """Return the batch of ordered rows."""
    count, first = rows.num_rows, entry.before.last_seq + 1
    columns = {name: rows[name] for name in BATCH}
    for name, kind in _OF_ITEMS.items():
        columns[name] = rows[name] if name in rows.column_names else pa.nulls(count, kind)
    if entry.settings.config.fair_key is None:
        columns["_cost"] = pa.repeat(pa.scalar(1.0), count)
    columns["_seq"] = pa.array(range(first, first + count), pa.int64())
    columns["_bytes"] = pa.nulls(count, pa.int64()) if sizes is None else sizes
    # Only Spark sorts rows by it.
    columns["_line"] = pa.nulls(count, pa.int64())
    return log_rows.plain(pa.table(columns))


def keyed_of(entry: EnqueueState, batch: EntryBatch) -> pa.Table:
    """Return logged items that may share a dedup key with the batch."""
    log, last = log_of(entry.store, "queue"), entry.before.step
    hashes = pc.drop_null(pc.unique(batch.given["_dedup_hash"]))
    wanted = RowFilter(("_dedup_hash",), lambda rows: pc.is_in(rows["_dedup_hash"], hashes))

    def parts() -> Iterator[pa.Table]:
        yield log.rows_of([], KEYED)
        files = _files(entry, lambda file: file.gen >= 0)
        for rows in log.parts_of(files, KEYED, None, wanted):
            yield rows.filter(pc.less_equal(rows["_step"], last))

    return log_rows.plain(once_more(lambda: pa.concat_tables(parts())))


def redriven_of(entry: EnqueueState, since: int) -> pa.Table:
    """Return redriven items of steps after one: ``_origin`` and ``_seq``."""
    return _read(
        entry,
        lambda file: file.gen >= 0 and file.may_have("_step", since + 1),
        ("_origin", "_seq"),
        lambda rows: pc.and_(pc.greater(rows["_step"], since), pc.is_valid(rows["_origin"])),
    )


def line_rows(entry: EnqueueState) -> pa.Table:
    """Return the ends of lines that the order has yet to reach."""
    return _meta(entry, KEY, LINE, _ahead(entry))


def group_rows(entry: EnqueueState, groups: pa.Table) -> pa.Table:
    """Return rows that name the last member of some groups."""
    rows = _meta(entry, GROUP, MEMBER, lambda _: True)
    return rows.filter(pc.is_in(rows["group_key"], groups["group_key"].combine_chunks()))


def members_of(entry: EnqueueState, groups: pa.Table) -> pa.Table:
    """Return items of some groups that the order may yet reach."""
    may, wanted = _ahead(entry), groups["group_key"].combine_chunks()
    return _read(
        entry,
        lambda file: file.gen >= 0 and may(file),
        MEMBER,
        lambda rows: pc.is_in(rows["_group_key"], wanted),
    )


def there_of(entry: EnqueueState, members: pa.Table) -> pa.Table:
    """Return the seqs of the members that are in the log."""
    return log_rows.items_of(entry.store, members, ("_seq",))


def step_rows(batch: EntryBatch, decided: Decided, entry: EnqueueState) -> pa.Table:
    """Return the rows of a step as they are logged."""
    before, rows = entry.before, batch.given
    said: dict[str, object] = {"_kind": ITEM, "_gen": before.gen, "_enqueued_at": entry.now}
    items = _take_rows(rows, decided.items["seq"], before)
    if "_enqueued_at" in rows.column_names:
        # What a step took back waits since the item that it was has.
        del said["_enqueued_at"]
        now = pa.scalar(entry.now, QUEUE_COLUMNS.arrow.field("_enqueued_at").type)
        since = pc.fill_null(items["_enqueued_at"].cast(now.type), now)
        at = items.column_names.index("_enqueued_at")
        items = items.set_column(at, "_enqueued_at", since)
    columns = {
        "_seq": decided.items["seq"],
        "_priority": decided.items["lowest"],
        "_round": decided.items["place"],
        "_duplicate_of": pa.nulls(items.num_rows, pa.int64()),
    }
    if decided.replacing is not None:
        columns |= _chain_columns(items, decided.items["seq"], decided.replacing)
    items = _with(items, said, columns)
    parts = [items.sort_by([("_priority", "ascending"), ("_round", "ascending")])]
    if decided.refused is not None:
        said = {"_kind": REFUSED, "_gen": REFUSED_LANE, "_enqueued_at": entry.now}
        refused = decided.refused
        columns = {f"_{name}": refused[name] for name in ("seq", "duplicate_of", "holder")}
        given = _take_rows(rows, refused["seq"], before)
        # What is refused has no place, not even the one that it had.
        given = given.drop_columns([name for name in ("_round",) if name in given.column_names])
        parts.append(_with(given, said, columns))
    for kind, ends in ((KEY, decided.line_ends), (GROUP, decided.group_ends)):
        if ends is not None:
            named = ends.rename_columns([f"_{name}" for name in ends.column_names])
            parts.append(_with(named, {"_kind": kind, "_gen": META_LANE}, {}))
    return pa.concat_tables(parts, promote_options="default")


def _chain_columns(
    items: pa.Table, seqs: pa.ChunkedArray, replacing: pa.Table
) -> dict[str, pa.ChunkedArray | pa.Array]:
    """Return what items say of those that they replace; own times stay."""
    said = replacing.take(pc.index_in(seqs, replacing["seq"].combine_chunks()))
    found = {f"_{name}": said[name] for name in said.column_names if name != "seq"}
    at = found["_available_at"].cast(items["_available_at"].type)
    return {**found, "_available_at": pc.coalesce(items["_available_at"], at)}


def _take_rows(rows: pa.Table, seqs: pa.ChunkedArray, before: QueueHead) -> pa.Table:
    return rows.take(pc.subtract(seqs, before.last_seq + 1))


def _ahead(entry: EnqueueState) -> Callable[[LogFile], bool]:
    """Return a test whether a file may have a tag ahead of the order."""
    least = entry.least_tags()
    return lambda file: any(
        file.may_have("_priority", p, p) and file.may_have("_round", tag)
        for p, tag in least.items()
    )


def _meta(
    entry: EnqueueState, kind: str, names: Sequence[str], may: Callable[[LogFile], bool]
) -> pa.Table:
    """Return rows of the ends of lines, or of groups."""
    rows = _read(
        entry,
        lambda file: file.gen == META_LANE and may(file),
        ("_kind", *names),
        lambda rows: pc.equal(rows["_kind"], kind),
    )
    return rows.drop_columns("kind")


def _read(
    entry: EnqueueState,
    may: Callable[[LogFile], bool],
    names: Sequence[str],
    counts: Callable[[pa.Table], pa.ChunkedArray],
) -> pa.Table:
    log, wanted = log_of(entry.store, "queue"), list(dict.fromkeys([*names, "_step"]))

    def parts() -> Iterator[pa.Table]:
        yield log.rows_of([], wanted)
        for rows in log.parts_of(_files(entry, may), wanted, may):
            known = pc.less_equal(rows["_step"], entry.before.step)
            yield rows.filter(pc.and_kleene(known, counts(rows)))

    read = once_more(lambda: pa.concat_tables(parts()))
    return log_rows.plain(read.select(list(names)))


def _files(entry: EnqueueState, may: Callable[[LogFile], bool]) -> list[LogFile]:
    last, files = entry.before.step, log_of(entry.store, "queue").files()
    return [file for file in files if may(file) and file.may_have("_step", 0, last)]


def _with(
    given: pa.Table, said: Mapping[str, object], columns: Mapping[str, pa.ChunkedArray | pa.Array]
) -> pa.Table:
    """Return rows with columns of the log, in its types."""
    kinds = QUEUE_COLUMNS.arrow
    made = {name: given[name] for name in given.column_names}
    for name, value in said.items():
        made[name] = pa.repeat(pa.scalar(value, kinds.field(name).type), given.num_rows)
    made |= {name: column.cast(kinds.field(name).type) for name, column in columns.items()}
    return pa.table(made)
