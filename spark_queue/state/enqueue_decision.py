"""A small enqueue: its duplicates and tags, decided by the scheduler."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.config import QueueConfig
from spark_queue.log.heads import Pointer, QueueHead
from spark_queue.log.schema import GROUP, ITEM, KEY, META_LANE, QUEUE_COLUMNS, REFUSED, REFUSED_LANE
from spark_queue.log.settings import Settings
from spark_queue.rules.fairness import tag_of
from spark_queue.rules.places import Holding
from spark_queue.rules.replacing import Replacing
from spark_queue.rules.rule_model import Admitted, NewItem
from spark_queue.rules.scheduler import Scheduler
from spark_queue.state import schedulers
from spark_queue.state.open_items import Holders, LineKey, Row, has_begun
from spark_queue.state.request import EnqueueFacts
from spark_queue.state.schedulers import Measure, seconds
from spark_queue.state.window import TooManyItemsError

#: Columns decided for each row of a frame.
_DECIDED = (
    *("_seq", "_gen", "_kind", "_priority", "_round", "_enqueued_at", "_duplicate_of"),
    "_holder",
)

#: Those of rows that replace others.
_OF_CHAINS = ("_replaces", "_chain", "_chain_at", "_available_at")


@dataclass(frozen=True, slots=True)
class Entered:
    """The rows of a step that enqueues, and the facts of them."""

    rows: pa.Table
    """Rows of the item log, without the head."""
    count: int
    """Rows of the frame."""
    duplicates: list[Row]
    """Rows that are refused because an item has their key."""
    tops: dict[int, float]
    """The highest tag that the step gives at each priority."""

    def first_duplicate(self) -> tuple[str, int, Holding]:
        """Return the key of a refused row, the item that holds it, and where that is."""
        names = ("_dedup_key", "_duplicate_of", "_holder")
        key, holder, holding = (self.duplicates[0][name] for name in names)
        return key, holder, holding

    def facts(self) -> EnqueueFacts:
        """Return the facts that the step is reported by."""
        replacing = 0
        if "_replaces" in self.rows.column_names:
            replacing = len(self.rows) - self.rows["_replaces"].null_count
        busy = sum(row["_holder"] == "busy" for row in self.duplicates)
        facts = (self.count, len(self.duplicates), 0, self.tops)
        return EnqueueFacts(*facts, replacing=replacing, busy=busy)


def decide_entry(
    known: Measure,
    settings: Settings,
    frame: pa.Table,
    before: QueueHead,
    pointers: Mapping[int, Pointer],
    now: datetime,
    replacing: Replacing | None = None,
) -> Entered:
    """Decide the rows of a step.

    Parameters
    ----------
    known : Replica or Several
        The state as of the step before.
    settings : Settings
        The settings in force.
    frame : pyarrow.Table
        The user's columns and the computed ones, as :func:`columns.add_keys` has them, in order.
    before : QueueHead
        The head of the step before.
    pointers : mapping
        How far the order of service has come, by priority.
    now : datetime
        The instant of the enqueue.
    replacing : Replacing, optional
        Whether and how rows replace others of their key.

    Raises
    ------
    TooManyItemsError
        When more would have to be read: since when an item waits that is replaced.
    """
    config = settings.config
    ours = [name for name in frame.column_names if name in QUEUE_COLUMNS.names]
    given = frame.select(ours).to_pylist()
    asked = {row["_dedup_key"]: row.get("_dedup_hash") for row in given}
    asked.pop(None, None)
    held = known.holders(asked)
    older = known.open_of(held, is_begun=replacing is None)
    if replacing is not None and not all(map(_has_beginning, older)):
        raise TooManyItemsError
    scheduler = _scheduler(known, settings, given, before, pointers, held, older)
    named = {n: row["_origin"] for n, row in enumerate(given) if row.get("_origin") is not None}
    new = [_new(row, config) for row in given]
    admitted = scheduler.admit(new, schedulers.seconds(now), named, replacing)
    log = [
        _row(row, answer, scheduler, before, now, is_replacing=replacing is not None)
        for row, answer in zip(given, admitted, strict=True)
    ]
    decided = _DECIDED if replacing is None else (*_DECIDED, *_OF_CHAINS)
    accepted = [row for row in log if row["_kind"] == ITEM]
    # Who keeps a place, or takes one over, is not the last of its line.
    places = {row["_seq"]: _place_of(row) for row in older if row["_group_key"] is None}
    tagged = [
        row["_seq"]
        for row, was in zip(log, given, strict=True)
        if was.get("_round") is None and not _takes_place(row, places)
    ]
    ends = [] if config.fair_key is None else _line_ends(scheduler, _only(accepted, tagged))
    meta = [*ends, *(_group_ends(accepted) if settings.is_clamped() else ())]
    return Entered(
        rows=pa.concat_tables(
            [_table(frame, log, decided), *_meta(meta)], promote_options="default"
        ),
        count=len(log),
        duplicates=[row for row in log if row["_kind"] == REFUSED],
        tops=_tops(config, accepted, ends, before.last_seq + len(log)),
    )


def _scheduler(
    known: Measure,
    settings: Settings,
    given: list[Row],
    before: QueueHead,
    pointers: Mapping[int, Pointer],
    held: Holders,
    older: list[Row],
) -> Scheduler:
    """Return a scheduler that knows the items and keys that a frame's rows may meet."""
    config = settings.config
    members = known.members({row["_group_key"] for row in given} - {None}, pointers)
    # Of several readers one may have begun an item that another has not.
    begun = {row["_seq"] for row in older}
    members = [*(row for row in members if row["_seq"] not in begun), *older]
    entered = [] if config.fair_key is None else _lines(given, members)
    known.learn_ends(entered)
    lines = [schedulers.line_of(known, settings, at) for at in entered]
    return schedulers.scheduler(
        config,
        members,
        pointers,
        lines,
        holders=schedulers.holders(config, held),
        last_seq=before.last_seq,
    )


def _lines(given: list[Row], members: list[Row]) -> list[LineKey]:
    """Return the lines that rows may enter, or that members of their groups are in."""
    priorities = {row["_priority"] for row in [*given, *members]}
    keys = {row["_fair_key"] for row in given}
    entered = {(priority, key) for priority in priorities for key in keys}
    standing = {(row["_priority"], row["_fair_key"]) for row in members}
    return sorted(entered | standing, key=repr)


def _new(row: Row, config: QueueConfig) -> NewItem:
    return NewItem(
        dedup_key=row["_dedup_key"],
        fair_key=row["_fair_key"],
        group_key=row["_group_key"],
        priority=row["_priority"],
        cost=1.0 if config.fair_key is None else row["_cost"],
        tag=row.get("_round"),
        available_at=None if row["_available_at"] is None else seconds(row["_available_at"]),
    )


def _place_of(row: Row) -> tuple[int, str | None]:
    return row["_priority"], row["_fair_key"]


# rule again: replaced item of a key
def _takes_place(row: Row, places: Mapping[int, tuple[int, str | None]]) -> bool:
    """Tell whether an entered item stands at the place of the one that it replaces."""
    is_alone = row["_group_key"] is None and row["_duplicate_of"] is None
    return is_alone and places.get(row.get("_replaces") or 0) == _place_of(row)


def _has_beginning(row: Row) -> bool:
    """Tell whether it is known since when an item, or one that it replaced, waits, if it does."""
    return row["_chain"] is None or row.get("_chain_at") is not None or has_begun(row)


def _row(
    row: Row,
    answer: Admitted,
    scheduler: Scheduler,
    before: QueueHead,
    now: datetime,
    *,
    is_replacing: bool,
) -> Row:
    logged = {**row, "_seq": answer.seq, "_enqueued_at": now, "_duplicate_of": answer.duplicate_of}
    logged["_holder"] = answer.holder
    item = scheduler.item(answer.seq)
    if item is None:
        return {**logged, "_gen": REFUSED_LANE, "_kind": REFUSED, "_round": None}
    # What a step took back waits since the item that it was has.
    since = row.get("_enqueued_at") or now
    placed = {"_priority": item.priority, "_round": item.raw_tag, "_enqueued_at": since}
    if is_replacing:
        placed |= {
            "_replaces": answer.replaces or answer.follows,
            "_duplicate_of": answer.follows,
            "_chain": item.chain,
            "_chain_at": _instant(item.chain_at),
            "_available_at": _instant(item.available_at),
        }
    return {**logged, **placed, "_gen": before.gen, "_kind": ITEM}


def _instant(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, timezone.utc)


def _only(rows: list[Row], seqs: Collection[int]) -> list[Row]:
    wanted = frozenset(seqs)
    return [row for row in rows if row["_seq"] in wanted]


def _line_ends(scheduler: Scheduler, accepted: list[Row]) -> list[Row]:
    lines = sorted({(row["_priority"], row["_fair_key"]) for row in accepted}, key=repr)
    return [
        {"_kind": KEY, "_priority": p, "_fair_key": key, "_round": scheduler.last_tag(p, key)}
        for p, key in lines
    ]


def _group_ends(accepted: list[Row]) -> list[Row]:
    """Return the last member of each group, whose members may have their own order."""
    names = ("_group_key", "_priority", "_fair_key", "_round", "_seq")
    last = {row["_group_key"]: row for row in accepted if row["_group_key"] is not None}
    return [{"_kind": GROUP} | {name: row[name] for name in names} for row in last.values()]


def _tops(
    config: QueueConfig, accepted: list[Row], ends: list[Row], last_seq: int
) -> dict[int, float]:
    if config.fair_key is None:
        priorities = {row["_priority"] for row in accepted} if config.priority else {0}
        return dict.fromkeys(sorted(priorities), tag_of(last_seq))
    tops: dict[int, float] = {}
    for end in ends:
        tops[end["_priority"]] = max(tops.get(end["_priority"], 0.0), end["_round"])
    return tops


def _table(frame: pa.Table, log: list[Row], names: Sequence[str]) -> pa.Table:
    """Return the rows with the user's columns, in the order of service."""
    decided = {name: pa.array([row.get(name) for row in log], _types[name]) for name in names}
    given = {name: frame[name] for name in frame.column_names if name not in decided}
    table = pa.table(given | decided)
    if len(log) <= 1:
        return table
    order = pc.sort_indices(table, [("_priority", "ascending"), ("_round", "ascending")])
    return table.take(order)


def _meta(rows: list[Row]) -> list[pa.Table]:
    if not rows:
        return []
    for row in rows:
        row["_gen"] = META_LANE
    names = ("_kind", "_gen", "_priority", "_fair_key", "_round", "_group_key", "_seq")
    return [pa.table({n: pa.array([row.get(n) for row in rows], _types[n]) for n in names})]


_types = dict(zip(QUEUE_COLUMNS.names, QUEUE_COLUMNS.arrow.types, strict=True))
