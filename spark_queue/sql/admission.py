"""Enqueues decided by SQL: duplicates, room, places in the order, and ends of lines and groups."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spark_queue.errors import ReaderFullError
from spark_queue.log.heads import StatusHead
from spark_queue.rules.dedup_keys import kept_for
from spark_queue.rules.fairness import tag_of
from spark_queue.sql import log_rows
from spark_queue.sql.decisions import Frame
from spark_queue.sql.entry_rows import Decided, EnqueueState, EntryBatch, Room
from spark_queue.sql.planner_choice import planner_of
from spark_queue.sql.sql_engines import SqlEngine, Tables, give_order
from spark_queue.state.request import EnqueueFacts, duplicates_error
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.steps import engine_of, is_small
from spark_queue.state.store import Store

ASKED = pa.schema(
    [
        ("since_step", pa.int64()),
        ("checkpoint_step", pa.int64()),
        ("now", pa.int64()),
        ("kept_for", pa.float64()),
        ("is_live", pa.bool_()),
        ("debounce", pa.int64()),
        ("at_most", pa.int64()),
        ("room_items", pa.int64()),
        ("room_bytes", pa.int64()),
        ("cut", pa.int64()),
    ]
)

#: Tables that are empty unless there is something to say.
NOTHING = {
    "repeated_hashes": [("dedup_hash", pa.int64())],
    "key_holders": [("dedup_key", pa.string()), ("seq", pa.int64())],
    "open": [("seq", pa.int64())],
    "busy": [("seq", pa.int64())],
    "older_items": [
        *(("dedup_key", pa.string()), ("seq", pa.int64()), ("follows", pa.int64())),
        *(("chain", pa.int64()), ("began", pa.int64()), ("priority", pa.int32())),
        *(("round", pa.float64()), ("fair_key", pa.string()), ("group_key", pa.string())),
    ],
    "duplicates": [
        ("seq", pa.int64()),
        ("dedup_key", pa.string()),
        ("duplicate_of", pa.int64()),
        ("holder", pa.string()),
    ],
    "successors": [("origin", pa.int64()), ("seq", pa.int64())],
    "ends": [("group_key", pa.string()), ("priority", pa.int32()), ("turn", pa.float64())],
    "line_rows": [("priority", pa.int32()), ("fair_key", pa.string()), ("round", pa.float64())],
}

#: Views that say less in a queue without groups.
_OF_GROUPS = ("with_priority", "placed_rows")


def admit(frame: Frame, entry: EnqueueState, engine: SqlEngine) -> tuple[Any, EnqueueFacts]:
    """Return the rows of an enqueue's step, with facts about them.

    Raises
    ------
    DuplicateItemError, ReaderFullError
        When there are such rows, and the rules say so.
    TooManyRowsError
        When more rows would be read than the engine takes.
    """
    room = _room_of(entry.readers)
    numbered = None if room.is_bounded() else engine.entries.rows_by_number(frame, entry)
    if numbered is not None:
        step, count = numbered
        tops = {0: tag_of(entry.before.last_seq + count)}
        return step, EnqueueFacts(count, 0, 0, tops, engine_of(step))
    batch = engine.entries.batch_of(frame, entry, room)
    with closing(engine.start({})) as database:
        decision = _Decision(engine, database, entry, batch, room)
        duplicates, full, busy = decision.refuse()
        decided = decision.place(has_refused=bool(duplicates or full))
        rows = engine.entries.step_rows(batch, decided, entry)
        facts = EnqueueFacts(
            *(batch.count, duplicates, full, decided.tops, engine.name),
            replacing=decision.count_replacing(),
            busy=busy,
        )
    return rows, facts


def _room_of(readers: Sequence[Store]) -> Room:
    """Return the least room, in items and bytes, of readers that refuse when full."""
    room = Room()
    for reader in readers:
        reader_config = reader.reader_config()
        if reader_config.full_policy != "refuse":
            continue
        most, most_bytes = reader_config.max_items, reader_config.max_bytes
        items = None if most is None else max(0, most - reader.outstanding(reader.status_head()))
        count_bytes = planner_of(reader).outstanding_bytes
        left = None if most_bytes is None else most_bytes - count_bytes(Snapshot(reader))
        room = room.within(reader.registered().name, items, left)
    return room


@dataclass(frozen=True, slots=True)
class _Decision:
    """Decision about one batch, by tables of an engine."""

    engine: SqlEngine
    database: Tables
    entry: EnqueueState
    batch: EntryBatch
    room: Room
    states: dict[int, tuple[StatusHead, Any]] = field(default_factory=dict)
    """Head and rows of each reader's log that was read."""

    def refuse(self) -> tuple[int, int, int]:
        """Refuse rows.

        Returns
        -------
        tuple of int
            How many are duplicates, find no room, and are duplicates of items that have begun.
        """
        database = self.database
        database.parts = self.batch.parts()
        database.give("batch", self.batch.rows)
        self._ask()
        found = [self._find_repeated(), self._find_holders(), self._find_successors()]
        if self.replaces:
            self._find_older(has_holders=found[1])
        if any(found):
            database.keep("duplicates")
        else:
            self._have_none("duplicates")
        told = database.rows("first_duplicate").to_pylist() if any(found) else []
        if told and self.entry.rules.raises_duplicates:
            names = ("items", "dedup_key", "duplicate_of", "holder")
            raise duplicates_error(*(told[0][name] for name in names))
        return self._cut(told[0]["items"], told[0]["busy"]) if told else self._cut(0, 0)

    def place(self, *, has_refused: bool) -> Decided:
        """Place the accepted rows, and move the ends of lines and groups."""
        database, settings = self.database, self.entry.settings
        if self.replaces:
            database.variants["accepted_rows"] = "accepted_rows_when_replacing"
        elif not has_refused:
            database.variants["accepted_rows"] = "accepted_rows_when_all"
        self._give_scales()
        is_clamped, has_lines = settings.is_clamped(), settings.config.fair_key is not None
        if is_clamped:
            self._find_ends()
        else:
            database.variants |= {name: f"{name}_without_groups" for name in _OF_GROUPS}
        if has_lines:
            self._tag()
        else:
            database.variants["with_tag"] = "with_tag_by_seq"
        if has_lines:
            database.keep("line_ends")
        tops = self._tops()
        if is_clamped or is_small(self.batch.count):
            database.keep("placed_rows")
        return Decided(
            items=database.table("placed_rows"),
            refused=database.table("refused_rows") if has_refused else None,
            line_ends=database.table("line_ends") if has_lines else None,
            group_ends=database.table("group_ends") if is_clamped else None,
            tops=tops,
            replacing=database.table("replacing_rows") if self.replaces else None,
        )

    @property
    def replaces(self) -> bool:
        """Whether rows replace others of their key."""
        return self.entry.rules.replacing is not None

    def count_replacing(self) -> int:
        """Return how many rows enter although an item has their key."""
        if not self.replaces:
            return 0
        count: int = self.database.rows("replacing_count")["items"][0].as_py()
        return count

    def _find_older(self, *, has_holders: bool) -> None:
        """Find the items that rows replace, or follow."""
        self.database.variants["taken_keys"] = "taken_keys_when_replacing"
        if has_holders:
            self.database.keep("older_items")
        else:
            self._have_none("older_items")

    def _find_repeated(self) -> bool:
        """Tell whether the batch may have a key twice."""
        if not self.batch.has_keys:
            return self._have_none("repeated_hashes")
        self.database.keep("repeated_hashes")
        return not self.database.is_empty("repeated_hashes")

    def _find_holders(self) -> bool:
        """Tell whether an item may hold a key of the batch before it."""
        database, entry = self.database, self.entry
        for name in ("open", "busy"):
            self._have_none(name)
        if not self.batch.has_keys or not entry.before.items:
            return self._have_none("key_holders")
        database.give("keyed", self.engine.entries.keyed_of(entry, self.batch))
        if database.is_empty("keyed"):
            return self._have_none("key_holders")
        database.keep("key_matches")
        if database.is_empty("key_matches"):
            return self._have_none("key_holders")
        database.keep("newest_key_matches")
        self._find_open(database.table("newest_key_matches"), has_busy=True)
        database.keep("key_holders")
        return True

    def _find_successors(self) -> bool:
        """Tell whether another step may have redriven an item of the batch."""
        since, before = self.entry.rules.redriven_since, self.entry.before
        if since is None or before.step <= since:
            return self._have_none("successors")
        self.database.give("redriven", self.engine.entries.redriven_of(self.entry, since))
        self.database.keep("successors")
        return True

    def _have_none(self, name: str) -> bool:
        """Give an empty table; return False, as nothing is found."""
        self.database.give(name, pa.schema(NOTHING[name]).empty_table())
        return False

    def _cut(self, duplicates: int, busy: int) -> tuple[int, int, int]:
        """Refuse every row from the first that finds no room; return as :meth:`refuse` does."""
        database, entry, room = self.database, self.entry, self.room
        cut = (
            database.rows("first_row_without_room")["seq"][0].as_py() if room.is_bounded() else None
        )
        if cut is None:
            database.give("refused_rows", database.table("duplicates"))
            return duplicates, 0, busy
        if entry.rules.on_full == "raise":
            raise ReaderFullError(entry.store.name, room.reader, self.batch.count)
        self._ask(cut)
        database.keep("refused_rows")
        counted = database.rows("refused_counts").to_pylist()[0]
        full = counted["items"] - counted["duplicates"]
        return counted["duplicates"], full, counted["busy"]

    def _ask(self, cut: int | None = None) -> None:
        asked = {
            "now": log_rows.micros(self.entry.now),
            "kept_for": kept_for(self.entry.settings.config.dedup_scope),
            "room_items": self.room.items,
            "room_bytes": self.room.bytes,
            "cut": cut,
            "is_live": self.entry.settings.config.dedup_scope == "live",
            "debounce": log_rows.micros_of(self.entry.rules.debounce),
            "at_most": log_rows.micros_of(self.entry.rules.at_most),
        }
        self.database.give("asked", pa.Table.from_pylist([asked], ASKED))

    def _give_scales(self) -> None:
        """Give the weights, and the pointers of the order of service."""
        entry, settings = self.entry, self.entry.settings
        priorities = {*entry.before.tops, 0}
        if settings.stretches and settings.config.priority is not None:
            priorities.update(self.database.rows("batch_priorities")["priority"].to_pylist())
        self.database.give("weights", log_rows.weights_of(settings, sorted(priorities)))
        pointers = log_rows.pointers_of(entry.pointers, {}, sorted(priorities))
        self.database.give("pointers", pointers)

    def _tag(self) -> None:
        """Compute the lines that rows enter."""
        database, entry = self.database, self.entry
        if entry.before.items:
            database.give("line_rows", self.engine.entries.line_rows(entry))
        else:
            self._have_none("line_rows")
        database.keep("line_spans")

    # rule: place of a new member
    def _find_ends(self) -> None:
        """Find the last open member of each group that the order has not passed."""
        database, entry, entries = self.database, self.entry, self.engine.entries
        self._have_none("ends")
        if not entry.before.items:
            return
        groups = database.find("batch_groups")
        named = self._newest(entries.group_rows(entry, groups))
        if database.is_empty("newest_members"):
            return
        last = self._ahead(named)
        database.give("members", last)
        database.give("there", entries.there_of(entry, last))
        kept = self._open(database.find("members_in_log"))
        database.give("ends", kept)
        # It has ended before its turn, or a changed weight, or a lower priority, has let it pass:
        # an earlier one may be the last.
        is_mixed = entry.settings.config.priority is not None or entry.settings.stretches
        database.give("members", named if is_mixed else last)
        database.keep("groups_without_end")
        if not database.is_empty("groups_without_end"):
            members = self._ahead(entries.members_of(entry, database.table("groups_without_end")))
            # The newest come without the turns by which they were found to be ahead.
            database.give("ends", kept, self._ahead(self._newest(self._open(members))))

    def _newest(self, members: Any) -> Any:
        self.database.give("members", members)
        self.database.keep("newest_members")
        return self.database.table("newest_members")

    def _ahead(self, members: Any) -> Any:
        self.database.give("members", members)
        return self.database.find("members_ahead")

    def _open(self, members: Any) -> Any:
        """Return the members that some reader has open."""
        self._find_open(members)
        self.database.give("members", members)
        return self.database.find("open_members")

    def _find_open(self, candidates: Any, *, has_busy: bool = False) -> None:
        """Give the seqs of candidates that some reader has open, and perhaps has begun."""
        claiming = {reader.reader: reader for reader in self.entry.readers}
        found = [
            self._standing(candidates, facts.since_step, claiming.get(number), has_busy=has_busy)
            for number, facts in self.entry.before.readers.items()
        ]
        for name, seqs in (
            ("open", [open_seqs for open_seqs, _ in found]),
            ("busy", [busy for _, busy in found if busy is not None]),
        ):
            if seqs:
                self.database.give(name, *seqs)
            else:
                self._have_none(name)

    def _standing(
        self, candidates: Any, since_step: int, reader: Store | None, *, has_busy: bool
    ) -> tuple[Any, Any]:
        """Return the candidates that one reader has open; a stream has all it sees.

        Also those that it has begun, where they are asked for.
        """
        asked = {"since_step": since_step}
        with closing(self.engine.start({"last_steps": "last_steps_of_candidates"})) as database:
            database.give("candidates", candidates)
            if reader is not None:
                head, states = self._states_of(reader)
                settings, priorities = reader.settings(head), sorted(self.entry.before.tops)
                database.give("states", states)
                give_order(database.give, head, settings, priorities)
                asked["checkpoint_step"] = head.checkpoint.queue_step
            database.give("asked", pa.Table.from_pylist([asked], ASKED))
            if reader is None:
                return database.find("visible_candidates"), None
            busy = database.find("busy_candidates") if has_busy else None
            return database.find("open_candidates"), busy

    def _states_of(self, reader: Store) -> tuple[StatusHead, Any]:
        if reader.reader not in self.states:
            head = reader.status_head()
            self.states[reader.reader] = (head, self.engine.logs.states_of(reader, head))
        return self.states[reader.reader]

    def _tops(self) -> dict[int, float]:
        """Return the highest tag of the step at each priority."""
        config = self.entry.settings.config
        if config.fair_key is not None:
            rows = self.database.rows("priority_tops").to_pylist()
            self.database.lines = sum(row["lines"] for row in rows)
            return {row["priority"]: row["top"] for row in rows}
        last = tag_of(self.entry.before.last_seq + self.batch.count)
        if config.priority is None:
            return {0: last}
        priorities = self.database.rows("placed_priorities")["priority"].to_pylist()
        return dict.fromkeys(sorted(priorities), last)
