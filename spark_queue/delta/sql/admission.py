"""Enqueues decided by SQL over the files of the logs: duplicates, places in the order, ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow.rows import log_of, once_more
from spark_queue.delta.replica.request import EnqueueFacts, EnqueueRules
from spark_queue.delta.sql import log_rows, scales
from spark_queue.delta.sql.database import Database
from spark_queue.delta.sql.entry_rows import is_clamped, step_rows
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.files import LogFile
from spark_queue.delta.tables.heads import Pointer, QueueHead, StatusHead
from spark_queue.delta.tables.schema import GROUP, KEY, META_LANE
from spark_queue.delta.tables.settings import Settings
from spark_queue.errors import DuplicateItemError

_BATCH = ("_priority", "_fair_key", "_group_key", "_cost", "_dedup_key", "_dedup_hash")

#: What is read of an item that may hold a key, or of a member of a group.
_KEYED = ("_seq", "_step", "_priority", "_round", "_fair_key", "_dedup_key", "_enqueued_at")
_MEMBER = ("_seq", "_step", "_priority", "_round", "_fair_key", "_group_key")

_PLACED = ("pos", "priority", "fair_key", "group_key", "round")

#: Columns that rows have which were items before: they may keep a place, or replace their own key.
_OF_ITEMS = ("_origin", "_round", "_errors", "_enqueued_at")

_STANDING = pa.schema(
    [("since_step", pa.int64()), ("checkpoint_step", pa.int64()), ("last_seq", pa.int64())]
)


def may_admit(rows: pa.Table, rules: EnqueueRules, readers: Sequence[Store]) -> bool:
    """Tell whether SQL decides such rows: none was an item before, and no reader has a limit."""
    if not readers:
        return False
    if rules.redriven_since is not None or any(name in rows.column_names for name in _OF_ITEMS):
        return False
    if any(facts.streams for facts in readers[0].queue_head().readers.values()):
        return False
    limits = [reader.limits() for reader in readers]
    return all(one.max_items is None and one.max_bytes is None for one in limits)


def admit(
    store: Store,
    rows: pa.Table,
    before: QueueHead,
    pointers: Mapping[int, Pointer],
    settings: Settings,
    rules: EnqueueRules,
    readers: Sequence[Store],
    now: datetime,
) -> tuple[pa.Table, EnqueueFacts]:
    """Decide the rows of a step, and return them with the facts of them.

    The parameters are those of :meth:`~spark_queue.delta.planner.Frame.entered`.

    Raises
    ------
    DuplicateItemError
        When there are duplicates, and the rules say so.
    TooManyRowsError
        When more rows would be read than this process takes.
    """
    with closing(Database({})) as database:
        batch = _Batch(database, store, rows, before, pointers, settings, readers, now)
        decided = batch.decide_duplicates()
        is_duplicate = pc.is_valid(decided["duplicate_of"])
        duplicates = decided.filter(is_duplicate)
        if duplicates.num_rows and rules.on_duplicate == "raise":
            key, holder = (duplicates[name][0].as_py() for name in ("dedup_key", "duplicate_of"))
            raise DuplicateItemError(duplicates.num_rows, f"key {key!r} of seq {holder}")
        tagged, placed = batch.place()
    return step_rows(rows, before, settings, now, decided, tagged, placed)


@dataclass(frozen=True, slots=True)
class _Batch:
    """One decision: the tables of its database, and what is asked of them."""

    database: Database
    store: Store
    rows: pa.Table
    before: QueueHead
    pointers: Mapping[int, Pointer]
    settings: Settings
    readers: Sequence[Store]
    now: datetime
    states: dict[int, tuple[StatusHead, pa.Table]] = field(default_factory=dict)
    """What each reader's log says, once it was read."""

    def decide_duplicates(self) -> pa.Table:
        """Return the rows in order, and who holds the key of each that is refused."""
        count, database = self.rows.num_rows, self.database
        batch = log_rows.plain(self.rows.select(_BATCH))
        if self.settings.config.fair_key is None:
            at = batch.schema.get_field_index("cost")
            batch = batch.set_column(at, "cost", pa.repeat(pa.scalar(1.0), count))
        batch = batch.append_column("pos", pa.array(range(1, count + 1), pa.int64()))
        database.give("batch", batch)
        database.give("asked", _questions(0, 0, self.before.last_seq))
        database.give("holders", self._holders())
        database.keep("decided")
        return database.rows("decided").sort_by("pos")

    def place(self) -> tuple[pa.Table, pa.Table]:
        """Return the tags of accepted rows as their lines give them out, and as they are stored."""
        database, config = self.database, self.settings.config
        priorities = sorted({*self.before.tops, *pc.unique(self.rows["_priority"]).to_pylist()})
        database.give("weights", scales.weights_of(self.settings, priorities))
        database.give("pointers", scales.pointers_of(self.pointers, {}, priorities))
        database.give("line_ends", self._line_ends())
        ends = _none(("group_key", pa.string()), ("priority", pa.int32()), ("turn", pa.float64()))
        if is_clamped(self.settings):
            ends = self._group_ends()
        database.give("ends", ends)
        lowered = database.rows("lowered")
        tags = _add_up(lowered) if config.fair_key is not None else self._seqs(lowered["pos"])
        tagged = lowered.append_column("tag", pa.array(tags, pa.float64())).sort_by("pos")
        stored = _raise(tagged, ends, self.settings) if is_clamped(self.settings) else tagged["tag"]
        return tagged, tagged.append_column("round", stored).select(_PLACED)

    # rule again: one line without keys
    def _seqs(self, pos: pa.ChunkedArray) -> list[float]:
        """Return the tags of one line: the seqs."""
        return [float(one + self.before.last_seq) for one in pos.to_pylist()]

    # rule again: scope of a key
    def _holders(self) -> pa.Table:
        """Return who holds a key of the batch before it: ``dedup_key``, ``seq``."""
        hashes = pc.drop_null(pc.unique(self.rows["_dedup_hash"]))
        none = _none(("dedup_key", pa.string()), ("seq", pa.int64()))
        if not len(hashes) or not self.before.items:
            return none
        keyed = self._of_hashes(hashes)
        self.database.give("keyed", keyed)
        newest = self.database.rows("newest_of_keys")
        scope = self.settings.config.dedup_scope
        if scope != "forever" and newest.num_rows:
            is_held = pc.is_in(newest["seq"], self._open_among(newest))
            if isinstance(scope, timedelta):
                since = log_rows.micros(self.now - scope)
                is_held = pc.or_(is_held, pc.greater(newest["enqueued_at"], since))
            newest = newest.filter(is_held)
        return newest.select(none.column_names)

    def _of_hashes(self, hashes: pa.Array) -> pa.Table:
        """Return the items whose key has one of some hashes; of most files only those are read."""
        log = log_of(self.store, "queue")

        def parts() -> Iterator[pa.Table]:
            yield log.rows_of([], _KEYED)
            for file in self._files(lambda file: file.gen >= 0):
                known = log.parts_of([file], ("_dedup_hash",), None)
                masks = [pc.is_in(part["_dedup_hash"], hashes) for part in known]
                if any(pc.any(mask).as_py() for mask in masks):
                    for rows, mask in zip(log.parts_of([file], _KEYED, None), masks, strict=True):
                        found = rows.filter(mask)
                        yield found.filter(pc.less_equal(found["_step"], self.before.step))

        return log_rows.plain(once_more(lambda: pa.concat_tables(parts())))

    def _open_among(self, candidates: pa.Table) -> pa.Array:
        """Return the seqs of items with which some reader is not done."""
        found = [pa.array([], pa.int64())]
        for reader in self.readers:
            head, states = self._states_of(reader)
            settings, priorities = reader.settings(head), sorted(self.before.tops)
            checkpoint = head.checkpoint
            with closing(Database({})) as database:
                database.give("candidates", candidates)
                database.give("states", states)
                database.give("weights", scales.weights_of(settings, priorities))
                pointers = scales.pointers_of(head.pointers, checkpoint.pointers, priorities)
                database.give("pointers", pointers)
                since = reader.registered().since_step
                database.give("asked", _questions(since, checkpoint.queue_step, 0))
                found += database.rows("standing")["seq"].chunks
        return pa.concat_arrays(found)

    def _states_of(self, reader: Store) -> tuple[StatusHead, pa.Table]:
        if reader.reader not in self.states:
            head = reader.status_head()
            self.states[reader.reader] = (head, log_rows.states_of(reader, head))
        return self.states[reader.reader]

    def _line_ends(self) -> pa.Table:
        """Return the last tag of each line: ``priority``, ``fair_key``, ``tag``."""
        kinds = (("priority", pa.int32()), ("fair_key", pa.string()), ("tag", pa.float64()))
        if self.settings.config.fair_key is None:
            return _none(*kinds)
        rows = self._meta(KEY, ("_priority", "_fair_key", "_round"), self._may_be_ahead)
        last = rows.group_by(["priority", "fair_key"]).aggregate([("round", "max")])
        return last.rename_columns([name for name, _ in kinds])

    # rule again: place of a new member
    def _group_ends(self) -> pa.Table:
        """Return the last open member of each group of the batch that the order has not passed."""
        asked = pc.drop_null(pc.unique(self.rows["_group_key"]))
        named = self._meta(GROUP, _MEMBER)
        named = named.filter(pc.is_in(named["group_key"], asked))
        last = self._ahead(_newest(named))
        kept = last.filter(pc.is_in(last["seq"], self._open_among(last)))
        # It has ended before its turn, or a changed weight, or a lower priority, has let it pass:
        # an earlier one may be the last.
        is_mixed = self.settings.config.priority is not None or self.settings.stretches
        among = pc.unique((named if is_mixed else last)["group_key"])
        gone = among.filter(pc.invert(pc.is_in(among, kept["group_key"])))
        if len(gone):
            members = self._ahead_in(gone)
            others = members.filter(pc.is_in(members["seq"], self._open_among(members)))
            kept = pa.concat_tables([kept, _newest(self._ahead(others))])
        return kept.select(["group_key", "priority", "turn"])

    def _ahead(self, members: pa.Table) -> pa.Table:
        self.database.give("members", members)
        return self.database.rows("members_ahead")

    def _ahead_in(self, groups: pa.Array) -> pa.Table:
        """Return the items of some groups that the order may have yet to reach."""
        return self._read(
            lambda file: file.gen >= 0 and self._may_be_ahead(file),
            _MEMBER,
            lambda rows: pc.is_in(rows["_group_key"], groups),
        )

    def _may_be_ahead(self, file: LogFile) -> bool:
        """Tell whether a file may have a tag that the order has yet to reach."""
        return any(
            file.may_have("_priority", p, p) and file.may_have("_round", self._least_tag(p))
            for p in self.before.tops
        )

    def _least_tag(self, priority: int) -> float:
        turn, _ = self.pointers.get(priority, (-math.inf, 0))
        return self.settings.least_tag(priority, turn) if math.isfinite(turn) else turn

    def _meta(
        self, kind: str, names: Sequence[str], may: Callable[[LogFile], bool] = lambda _: True
    ) -> pa.Table:
        """Return rows that say where lines, or groups, end."""
        rows = self._read(
            lambda file: file.gen == META_LANE and may(file),
            ("_kind", *names),
            lambda rows: pc.equal(rows["_kind"], kind),
        )
        return rows.drop_columns("kind")

    def _read(
        self,
        may: Callable[[LogFile], bool],
        names: Sequence[str],
        counts: Callable[[pa.Table], pa.ChunkedArray],
    ) -> pa.Table:
        log, wanted = log_of(self.store, "queue"), list(dict.fromkeys([*names, "_step"]))

        def parts() -> Iterator[pa.Table]:
            yield log.rows_of([], wanted)
            for rows in log.parts_of(self._files(may), wanted, may):
                known = pc.less_equal(rows["_step"], self.before.step)
                yield rows.filter(pc.and_kleene(known, counts(rows)))

        read = once_more(lambda: pa.concat_tables(parts()))
        return log_rows.plain(read.select(list(names)))

    def _files(self, may: Callable[[LogFile], bool]) -> list[LogFile]:
        last, files = self.before.step, log_of(self.store, "queue").files()
        return [file for file in files if may(file) and file.may_have("_step", 0, last)]


def _newest(members: pa.Table) -> pa.Table:
    """Return the newest member of each group."""
    newest = members.group_by("group_key").aggregate([("seq", "max")])["seq_max"]
    return members.filter(pc.is_in(members["seq"], newest.combine_chunks()))


def _questions(since_step: int, checkpoint_step: int, last_seq: int) -> pa.Table:
    asked = dict(zip(_STANDING.names, (since_step, checkpoint_step, last_seq), strict=True))
    return pa.Table.from_pylist([asked], _STANDING)


def _none(*kinds: tuple[str, pa.DataType]) -> pa.Table:
    return pa.schema(list(kinds)).empty_table()


# rule again: tag of a new item
def _add_up(lowered: pa.Table) -> list[float]:
    """Return the tags of rows, line by line: sums of costs, added one by one in any engine."""
    tags, tag = [], 0.0
    columns = (lowered[name].to_pylist() for name in ("nth", "start", "cost"))
    for nth, start, cost in zip(*columns, strict=True):
        tag = (start if nth == 1 else tag) + cost
        tags.append(tag)
    return tags


# rule again: place of a new member
def _raise(tagged: pa.Table, ends: pa.Table, settings: Settings) -> pa.Array:
    """Return stored tags that never fall within a group and priority, as turns."""
    columns = (ends[name].to_pylist() for name in ("group_key", "priority", "turn"))
    bounds = {key: (priority, turn) for key, priority, turn in zip(*columns, strict=True)}
    stored = []
    columns = (tagged[name].to_pylist() for name in ("priority", "fair_key", "group_key", "tag"))
    for priority, fair_key, group_key, given in zip(*columns, strict=True):
        tag = given
        if group_key is not None:
            stretch, bound = settings.stretch(fair_key), bounds.get(group_key)
            if (
                bound is not None
                and bound[0] == priority
                and bound[1] > stretch.turn(priority, tag)
            ):
                tag = stretch.tag(priority, bound[1])
            bounds[group_key] = (priority, stretch.turn(priority, tag))
        stored.append(tag)
    return pa.array(stored, pa.float64())
