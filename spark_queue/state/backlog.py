"""Items beyond those in memory, read from the tables' files.

The statistics of the files, and of the row groups in them, say where the next turns are, so that
the size of what waits behind them does not matter.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.log.delta.commits import LogFile
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk.file_scans import Part
from spark_queue.log.heads import Checkpoint
from spark_queue.log.schema import KEY, META_LANE, QUEUE_COLUMNS
from spark_queue.log.settings import SLACK, Settings, are_after, are_unpassed, turns_of
from spark_queue.rules.dedup_keys import kept_for
from spark_queue.state.open_items import NAMED, WAITED, WAITING, LineKey, Place, Row, view

#: Runs of hashes that are looked at one by one, besides those too large to be merged.
_RUNS = 16
_LARGE = 1_000_000

#: A turn and a seq.
_Turn = tuple[float, float]

_BY_TURN = [("turn", "ascending"), ("_seq", "ascending")]
_TURN = pa.field("turn", pa.float64())
_WAITING = pa.schema([QUEUE_COLUMNS.arrow.field(name) for name in WAITING])

_TOLD = pa.schema([*(QUEUE_COLUMNS.arrow.field(name) for name in NAMED), _TURN])

#: Before all turns.
_BEGIN = (-math.inf, 0.0)

#: Columns read to learn the keys of items.
_HASHED = ("_step", "_seq", "_priority", "_round", "_fair_key", "_dedup_hash")

#: Columns read of an item that may replace others.
_CHAINED = ("_step", "_seq", "_priority", "_round", "_fair_key", "_chain")

#: Columns read of an item that may hold a dedup key.
_NAMED = (*WAITING, "_step", "_dedup_key")


class KeyHashes:
    """The hashes of dedup keys, each with the seqs of the items that have it.

    It takes 16 bytes an item: the hash, which tells in a microsecond that a key is new, and the
    seq, by which the one file is found that has the item of a key that is not. The key of an item
    that has ended may be among them.

    Attributes
    ----------
    step : int
        All items up to this step of the item log are here that may hold a key.
    """

    def __init__(self) -> None:
        self.step = -1
        self._runs: list[_HashRun] = []

    def __len__(self) -> int:
        return sum(len(run.hashes) for run in self._runs)

    def add(self, hashes: pa.ChunkedArray, seqs: pa.ChunkedArray) -> None:
        """Add items: their hashes, where they have any, and their seqs."""
        items = pa.table({"hash": hashes, "seq": seqs})
        items = items.filter(pc.is_valid(items["hash"]))
        if items.num_rows:
            self._runs.append(_HashRun(items))
        small = [run for run in self._runs if len(run.hashes) < _LARGE]
        if len(small) > _RUNS:
            large = [run for run in self._runs if len(run.hashes) >= _LARGE]
            self._runs = [*large, _HashRun(pa.concat_tables(run.items for run in small))]

    def seqs_of(self, hashed: int) -> list[int]:
        """Return the items that have a key of a hash."""
        return [seq for run in self._runs for seq in run.seqs_of(hashed)]


class _HashRun:
    """Items in the order of their hashes."""

    __slots__ = ("hashes", "items", "seqs")

    def __init__(self, items: pa.Table) -> None:
        order = pc.sort_indices(items["hash"].combine_chunks())
        self.items = items.take(order).combine_chunks()
        # Each is one array, without nulls and from its first value on, and can be viewed.
        self.hashes, self.seqs = (
            view(self.items[name], pa.int64(), "q") for name in ("hash", "seq")
        )

    def seqs_of(self, hashed: int) -> list[int]:
        found, at = [], bisect_left(self.hashes, hashed)
        while at < len(self.hashes) and self.hashes[at] == hashed:
            found.append(self.seqs[at])
            at += 1
        return found


@dataclass(slots=True)
class TablesAhead:
    """The item log, for one reader, as of a step.

    Attributes
    ----------
    log : Log[Any]
        The item log.
    settings : Settings
        Those in force: what turns the stored tags are.
    checkpoint : Checkpoint
        The newest one of the reader's log, or an earlier one.
    over : pyarrow.Array
        The items that have ended since, as far as that was read.
    touched : pyarrow.Array
        The items that were open then, and that the order may have passed.
    since : int
        The reader sees the items of later steps.
    step : int
        The step of the item log that is looked at.
    priorities : tuple of int
        All that an item of it may have.
    hashes : KeyHashes
        The dedup keys of its items,
    named_to : int
        at least up to this step.
    """

    log: DeltaLog[Any]
    settings: Settings
    checkpoint: Checkpoint
    over: pa.Array
    touched: pa.Array
    since: int
    step: int = 0
    priorities: tuple[int, ...] = ()
    hashes: KeyHashes = field(default_factory=KeyHashes)
    named_to: int = 0

    def as_of(self, step: int, priorities: Sequence[int]) -> None:
        """Look at the item log as of a step, and at items of these priorities."""
        self.step, self.priorities = step, tuple(priorities)

    def go_on(self, hashes: KeyHashes) -> None:
        """Go on with keys that were learnt of the same log."""
        self.hashes = hashes

    def remember_to(self, step: int) -> None:
        """Note that the keys of later steps are remembered elsewhere."""
        self.named_to = step

    def next_turns(self, after: Place, most: int) -> tuple[pa.Table, Place | None]:
        """Return the next untouched items in order, and the place up to which they are all.

        The place is ``None`` where nothing waits behind it.
        """
        found, left = [_WAITING.empty_table()], most
        for priority in sorted(self.priorities, reverse=True):
            if -priority < after[0]:
                continue
            begin = after[1:] if -priority == after[0] else _BEGIN
            rows, is_all = self._turns_of(priority, begin, left)
            found.append(rows.select(WAITING))
            left -= rows.num_rows
            if not is_all:
                last = rows.slice(rows.num_rows - 1).to_pylist()[0]
                return pa.concat_tables(found), (-priority, last["turn"], last["_seq"])
            if not left:
                return pa.concat_tables(found), (-priority, math.inf, 0)
        return pa.concat_tables(found), None

    def untouched_items(self) -> pa.Table:
        """Return the turns and keys of items that had not been touched when it was made.

        Those that have entered since are among them.
        """

        def may(file: LogFile) -> bool:
            return any(self._may_wait(file, priority, _BEGIN) for priority in self.priorities)

        found = [_TOLD.empty_table()]
        for part in self._parts(may):
            rows = part.read((*NAMED, "_step", "_round"), QUEUE_COLUMNS.arrow)
            rows = rows.filter(pc.and_(self._is_seen(rows), self._were_waiting(rows)))
            found.append(
                rows.append_column(_TURN, turns_of(rows, self.settings)).select(_TOLD.names)
            )
        return pa.concat_tables(found)

    def chained_items(self) -> set[int]:
        """Return the items that were open when it was made, and replace each other."""
        later = self._open_of(("_chain",), lambda rows: pc.is_valid(rows["_chain"]))
        named = sorted(pc.unique(later["_chain"]).to_pylist())
        among = pa.array(named, pa.int64())
        first = self._open_of(("_seq",), lambda rows: pc.is_in(rows["_seq"], among), named)
        found = pa.concat_tables(
            [
                later.select(["_seq", "_chain"]),
                pa.table({"_seq": first["_seq"], "_chain": first["_seq"]}),
            ]
        )
        counts = found.group_by("_chain").aggregate([("_seq", "count")])
        several = counts.filter(pc.greater(counts["_seq_count"], 1))["_chain"]
        return {*found.filter(pc.is_in(found["_chain"], several))["_seq"].to_pylist()}

    def _open_of(
        self,
        names: Sequence[str],
        picks: Callable[[pa.Table], pa.ChunkedArray],
        seqs: Sequence[int] | None = None,
    ) -> pa.Table:
        """Return items that were open when the window was made; of parts that have none little."""
        found = [pa.schema([QUEUE_COLUMNS.arrow.field(name) for name in _CHAINED]).empty_table()]
        for part in self._parts(
            lambda file: file.gen >= 0 and (seqs is None or file.may_have_one("_seq", seqs))
        ):
            if pc.any(picks(part.read(names, QUEUE_COLUMNS.arrow))).as_py():
                rows = part.read(_CHAINED, QUEUE_COLUMNS.arrow)
                rows = rows.filter(pc.and_(picks(rows), self._is_seen(rows)))
                found.append(rows.filter(self._were_open(rows)))
        return pa.concat_tables(found)

    def items_of(self, hashes: Collection[int], seqs: Collection[int]) -> Iterator[Row]:
        """Return items that may have dedup keys of some hashes, and items of some seqs.

        Each says by :data:`~spark_queue.state.open_items.WAITED` whether it had not been touched.
        """
        if hashes:
            self._learn_hashes()
        wanted = sorted({*seqs, *(seq for one in hashes for seq in self.hashes.seqs_of(one))})
        among = pa.array(wanted, pa.int64())
        for part in self._parts(lambda file: file.gen >= 0 and file.may_have_one("_seq", wanted)):
            if pc.any(pc.is_in(part.read(("_seq",), QUEUE_COLUMNS.arrow)["_seq"], among)).as_py():
                rows = part.read(_NAMED, QUEUE_COLUMNS.arrow)
                known = pc.less_equal(rows["_step"], self.step)
                rows = rows.filter(pc.and_(pc.is_in(rows["_seq"], among), known))
                yield from rows.append_column(WAITED, self._were_waiting(rows)).to_pylist()

    def ends_of(self, lines: Collection[LineKey]) -> Mapping[LineKey, float]:
        """Return the last tag of each line that has given one out."""
        found: dict[LineKey, float] = {}
        keys = pa.array({key for _, key in lines}, pa.string())
        for part in self._parts(lambda file: file.gen == META_LANE):
            rows = part.read(
                ("_kind", "_step", "_priority", "_round", "_fair_key"), QUEUE_COLUMNS.arrow
            )
            is_end = pc.and_(pc.equal(rows["_kind"], KEY), pc.is_in(rows["_fair_key"], keys))
            known = pc.less_equal(rows["_step"], self.step)
            for row in rows.filter(pc.and_(is_end, known)).to_pylist():
                line = (row["_priority"], row["_fair_key"])
                found[line] = max(found.get(line, 0.0), row["_round"])
        return {line: found[line] for line in lines if line in found}

    def _parts(self, may: Callable[[LogFile], bool]) -> list[Part]:
        """Return the parts of files that may have a match."""
        files = [file for file in self.log.files() if may(file)]
        return [part for part in self.log.parts(files) if may(part.file)]

    def _turns_of(self, priority: int, begin: _Turn, most: int) -> tuple[pa.Table, bool]:
        """Return the next items of a priority in order, and whether they are the last."""
        parts = self._parts(lambda file: self._may_wait(file, priority, begin))
        by_turn = sorted(
            (self._least_turn(part.file, priority), at) for at, part in enumerate(parts)
        )
        number = pa.field("part", pa.int64())
        kept = pa.schema([_WAITING.field("_seq"), _TURN, number]).empty_table()
        bound, is_all = math.inf, True
        for least, at in by_turn:
            if least > bound:
                return self._whole(kept, parts), False
            rows = self._waiting_behind(parts[at], priority, begin, bound)
            rows = rows.append_column(number, pa.repeat(pa.scalar(at, pa.int64()), rows.num_rows))
            kept = pa.concat_tables([kept, rows])
            if kept.num_rows > most:
                kept = kept.take(pc.select_k_unstable(kept, most, _BY_TURN))
                is_all, bound = False, pc.max(kept["turn"]).as_py()
        return self._whole(kept, parts), is_all

    def _waiting_behind(self, part: Part, priority: int, begin: _Turn, most: float) -> pa.Table:
        """Return seq and turn of a part's items that wait behind a place, up to a turn."""
        weighted = ["_fair_key"] if self.settings.stretches else []
        rows = part.read(["_step", "_seq", "_priority", "_round", *weighted], QUEUE_COLUMNS.arrow)
        rows = rows.filter(pc.and_(pc.equal(rows["_priority"], priority), self._is_seen(rows)))
        turns = turns_of(rows, self.settings)
        waits = pc.and_(are_after(rows, turns, begin), pc.less_equal(turns, most))
        waits = pc.and_(waits, are_unpassed(rows, turns, self.checkpoint))
        rows = rows.append_column(_TURN, turns).filter(waits)
        return rows.filter(pc.invert(pc.is_in(rows["_seq"], self.over))).select(["_seq", "turn"])

    def _whole(self, kept: pa.Table, parts: Sequence[Part]) -> pa.Table:
        """Return the full rows of items with their turns, in order."""
        found = [_WAITING.append(_TURN).empty_table()]
        for at in pc.unique(kept["part"]).to_pylist():
            of_part = kept.filter(pc.equal(kept["part"], at)).sort_by("_seq")
            rows = parts[at].read(WAITING, QUEUE_COLUMNS.arrow)
            rows = rows.filter(pc.is_in(rows["_seq"], of_part["_seq"].combine_chunks()))
            found.append(rows.sort_by("_seq").append_column(_TURN, of_part["turn"]))
        return pa.concat_tables(found).sort_by(_BY_TURN)

    def _least_turn(self, file: LogFile, priority: int) -> float:
        """Return a bound below the turns of a file."""
        return min(self._bounds(file, priority, 0)) if "_round" in file.ranges else -math.inf

    def _highest_turn(self, file: LogFile, priority: int) -> float:
        """Return a bound above the turns of a file."""
        return max(self._bounds(file, priority, 1)) if "_round" in file.ranges else math.inf

    def _bounds(self, file: LogFile, priority: int, end: int) -> list[float]:
        """Return the possible turns of a file's least or highest tag, with some slack."""
        tag, side = file.ranges["_round"][end], 2 * end - 1
        stretches = self.settings.stretches.values()
        turns = [tag, *(stretch.turn(priority, tag) for stretch in stretches)]
        return [turn + side * SLACK * max(1.0, abs(turn)) for turn in turns]

    def _may_wait(self, file: LogFile, priority: int, begin: _Turn) -> bool:
        """Whether a file may have items of a priority that wait behind a place."""
        if file.gen < 0 or not file.may_have("_priority", priority, priority):
            return False
        if not file.may_have("_step", self.since + 1, self.step):
            return False
        highest = self._highest_turn(file, priority)
        later = file.may_have("_step", self.checkpoint.queue_step + 1)
        return highest >= begin[0] and (highest >= self._pointer_turn(priority) or later)

    def _is_seen(self, rows: pa.Table) -> pa.ChunkedArray:
        """Tell of items whether the reader sees them, and they are known."""
        step = rows["_step"]
        return pc.and_(pc.greater(step, self.since), pc.less_equal(step, self.step))

    def _learn_hashes(self) -> None:
        """Learn the keys of the items that have entered since they were learnt last."""
        known = self.hashes.step
        if known >= self.named_to:
            return
        touched = sorted(self.touched.to_pylist())
        for part in self._parts(lambda file: self._may_name(file, known, touched)):
            rows = part.read(_HASHED, QUEUE_COLUMNS.arrow)
            new = pc.and_(pc.greater(rows["_step"], known), pc.less_equal(rows["_step"], self.step))
            rows = rows.filter(new)
            rows = rows.filter(self._may_hold(rows))
            self.hashes.add(rows["_dedup_hash"], rows["_seq"])
        self.hashes.step = self.step

    def _may_name(self, file: LogFile, known: int, touched: Sequence[int]) -> bool:
        """Whether a file may have items with a key, of steps later than a known one."""
        if file.gen < 0 or not file.may_have("_step", known + 1, self.step):
            return False
        if self._outlives() or file.may_have_one("_seq", touched):
            return True
        later = file.may_have("_step", self.checkpoint.queue_step + 1)
        return later or any(
            file.may_have("_priority", priority, priority)
            and self._highest_turn(file, priority) >= self._pointer_turn(priority)
            for priority in self.priorities
        )

    def _may_hold(self, rows: pa.Table) -> pa.ChunkedArray:
        """Tell of items whether they may hold a key: they are not over, or it outlives them."""
        if self._outlives():
            return pa.chunked_array([pa.repeat(pa.scalar(True), rows.num_rows)])
        return self._were_open(rows)

    def _were_open(self, rows: pa.Table) -> pa.ChunkedArray:
        """Tell of items whether they were not over when the reader's log was read."""
        return pc.or_(self._were_waiting(rows), pc.is_in(rows["_seq"], self.touched))

    def _outlives(self) -> bool:
        """Tell whether a key may be held by an item that is over."""
        return kept_for(self.settings.config.dedup_scope) > 0

    def _were_waiting(self, rows: pa.Table) -> pa.ChunkedArray:
        """Tell of items whether they waited, untouched, when the reader's log was read."""
        ahead = are_unpassed(rows, turns_of(rows, self.settings), self.checkpoint)
        return pc.and_not(ahead, pc.is_in(rows["_seq"], self.over))

    def _pointer_turn(self, priority: int) -> float:
        """Return the pointer's turn at the checkpoint."""
        return self.checkpoint.pointers.get(priority, (-math.inf, 0))[0]
