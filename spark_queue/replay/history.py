"""History of a queue's work, from its logs: arrivals and durations."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue import checks
from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError
from spark_queue.local_queue import LocalQueue, LocalReader
from spark_queue.log.schema import CANCELLED, CLAIMED, EXPIRED, ITEM
from spark_queue.log.settings import Settings
from spark_queue.log.step_events import LogName
from spark_queue.queue_views import Opened, store_of
from spark_queue.replay.play import Change, Job
from spark_queue.rules.scheduler import Scheduler
from spark_queue.rules.timing import PausedKeys
from spark_queue.sql.file_rows import rows_of
from spark_queue.sql.look import instant_of
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from spark_queue.delta_queue import DeltaQueue
    from spark_queue.reader import Reader

#: Rows up to which a log is looked at.
MOST = 4_000_000

#: What an item without a fair key is shown as.
NOBODY = "(none)"

_ENTERED = (
    *("_seq", "_step", "_fair_key", "_group_key", "_flow_keys", "_units", "_priority", "_cost"),
    *("_available_at", "_enqueued_at"),
)
_MOVED = ("_seq", "_step", "_state", "_lease", "_losses", "_at")


@dataclass(frozen=True, slots=True)
class PastItem(Job):
    """An item: whose it was, when it could first run, and how long it was worked on."""

    group_key: str | None = None
    priority: int = 0
    cost: float = 1.0
    flow_keys: tuple[str | None, ...] = ()
    """Its stored keys: neither the fair key nor the group key is one."""
    units: tuple[float, ...] = ()
    """The units that it takes of keys."""
    waited: float | None = None
    """Seconds from when it could first run to its first claim; ``None`` where it had none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPause:
    """A pause of the queue, and of keys, from an instant on."""

    at: float
    """Seconds from the first item on."""
    paused: bool
    """Whether the whole queue was."""
    keys: PausedKeys
    """Until when each key was, by its expression and its text; infinity for an open end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a queue has seen."""

    items: tuple[PastItem, ...]
    """In the order in which they could run."""
    config: QueueConfig
    """The configuration in force."""
    workers: int
    """How many claims were held at the same time, at the most."""
    guessed: int
    """Items without any work yet: they are given the mean of their key, or of all."""
    left_out: int
    """Items that ended without having been worked on."""
    retries: int = 0
    """Claims of items beyond the first of each: a play works an item off at once."""
    pauses: tuple[PastPause, ...] = ()
    """What was paused, in order."""


def history(queue: LocalQueue | LocalReader | DeltaQueue | Reader) -> Past:
    """Read the past of a queue, as a reader of it sees it; without Spark where it is on this disk.

    The time that a claim was held is divided among its items: items settled together were worked
    on one after another, for equally long. A lost lease counts for nothing.

    Raises
    ------
    InvalidArgumentError
        When nothing was worked on yet, or Spark finds more rows than a process looks at.
    SparkNeededError
        When a process finds so many by itself.
    """
    store = _store_of(queue)
    items, moves = _items(store), _rows(store, "status", _MOVED)
    moves = moves.filter(pc.is_in(moves["_seq"], items["_seq"].combine_chunks()))
    newest, holds = _follow_moves(moves.sort_by([("_seq", "ascending"), ("_step", "ascending")]))
    work = _work(holds)
    if not work:
        raise InvalidArgumentError(f"nothing of {store.name!r} was worked on yet: there is no past")
    rows = items.to_pylist()
    over = {seq for seq, state in newest.items() if state in (CANCELLED, EXPIRED)}
    kept = [row for row in rows if row["_seq"] in work or row["_seq"] not in over]
    guesses = _means(kept, work)
    first: dict[int, float] = {}
    for hold in holds:
        first[hold.seq] = min(first.get(hold.seq, hold.begin), hold.begin)
    begin = min((_ready_at(row) for row in kept), default=0.0)
    found = (_past(row, begin, work, guesses, first) for row in kept)
    return Past(
        items=tuple(sorted(found, key=attrgetter("submitted", "number"))),
        config=store.settings(store.status_head()).config,
        workers=_most_at_once(holds),
        guessed=sum(row["_seq"] not in work for row in kept),
        left_out=len(rows) - len(kept),
        retries=len(holds) - len(first),
        pauses=tuple(_pauses(store, begin)),
    )


def _pauses(store: Store, begin: float) -> Iterator[PastPause]:
    """Yield each change of the pauses."""
    with planner_of(store).look(store, has_values=False) as at:
        rows = at.rows("settings_changes")
    last: tuple[bool, PausedKeys] = (False, {})
    for row in sorted(rows, key=itemgetter("step")):
        found = Settings.from_json(store.name, row["settings"])
        keys: PausedKeys = {name: end - begin for name, end in found.key_ends().items()}
        if (found.paused, keys) != last:
            last = (found.paused, keys)
            moment = _seconds(instant_of(row["moment"]))
            yield PastPause(at=moment - begin, paused=found.paused, keys=keys)


def changes_by_pauses(past: Past) -> list[Change]:
    """Return each pause, and its end for each key, in order."""
    begun = ((one.at, partial(_pause, one)) for one in past.pauses)
    ends = {end for one in past.pauses for end in one.keys.values() if end < math.inf}
    return sorted([*begun, *((end, _look_again) for end in ends)], key=itemgetter(0))


def _look_again(_scheduler: Scheduler) -> None:
    """Do nothing: the next claim sees that time has passed."""


def _pause(one: PastPause, scheduler: Scheduler) -> None:
    if one.paused != scheduler.paused:
        (scheduler.pause if one.paused else scheduler.resume)()
    scheduler.pause_keys(one.keys)


@dataclass(frozen=True, slots=True)
class _Hold:
    """The time in which an item was in the hands of a claim."""

    lease: int
    seq: int
    begin: float
    end: float
    is_work: bool


def _store_of(queue: LocalQueue | LocalReader | DeltaQueue | Reader) -> Store:

    checks.require_kind("queue", queue, Opened)
    return store_of(queue)


def _items(store: Store) -> pa.Table:
    items = _rows(store, "queue", _ENTERED)
    return items.filter(pc.greater(items["_step"], store.registered().since_step))


def _rows(store: Store, which: LogName, columns: tuple[str, ...]) -> pa.Table:
    if store.native(which) is not None:
        return rows_of(store, which, columns, most=MOST)
    rows = store.rows_since(which, 0, ["_kind", "_gen", *columns], MOST)
    # Checkpoints repeat items in a lane below zero.
    return rows.filter(pc.and_(pc.equal(rows["_kind"], ITEM), pc.greater_equal(rows["_gen"], 0)))


def _follow_moves(moves: pa.Table) -> tuple[dict[int, str], list[_Hold]]:
    """Return the state of each item and its holds, given its rows in order."""
    newest: dict[int, str] = {}
    holds = []
    held: Mapping[str, Any] | None = None
    for row in moves.select(list(_MOVED)).to_pylist():
        newest[row["_seq"]] = row["_state"]
        if held is not None and row["_seq"] == held["_seq"]:
            if row["_state"] == CLAIMED and row["_lease"] == held["_lease"]:
                # Renewed.
                continue
            holds.append(_hold(held, row))
        is_granted = row["_state"] == CLAIMED and row["_lease"] == row["_step"]
        held = row if is_granted else None
    return newest, holds


def _hold(grant: Mapping[str, Any], end: Mapping[str, Any]) -> _Hold:
    is_lost = (end["_losses"] or 0) > (grant["_losses"] or 0)
    began, ended = _seconds(grant["_at"]), _seconds(end["_at"])
    return _Hold(grant["_lease"], grant["_seq"], began, max(began, ended), not is_lost)


def _work(holds: Iterable[_Hold]) -> dict[int, float]:
    """Return how long each item was worked on: a claim is worked off one item after another."""
    work: dict[int, float] = {}
    by_lease = sorted(holds, key=attrgetter("lease", "end"))
    for _, of_lease in groupby(by_lease, attrgetter("lease")):
        since: float | None = None
        for end, together in groupby(of_lease, attrgetter("end")):
            settled = list(together)
            begin = settled[0].begin if since is None else since
            for hold in settled:
                if hold.is_work:
                    work[hold.seq] = work.get(hold.seq, 0.0) + (end - begin) / len(settled)
            since = end
    return work


def _most_at_once(holds: Iterable[_Hold]) -> int:
    """Return how many claims were held at the same time at most."""
    spans: dict[int, tuple[float, float]] = {}
    for hold in holds:
        begin, end = spans.get(hold.lease, (hold.begin, hold.end))
        spans[hold.lease] = min(begin, hold.begin), max(end, hold.end)
    # Who ends at an instant is gone when another begins.
    changes = [(begin, 1) for begin, _ in spans.values()] + [(end, -1) for _, end in spans.values()]
    most = now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return max(1, most)


def _means(rows: Iterable[Mapping[str, Any]], work: Mapping[int, float]) -> dict[str | None, float]:
    """Return the mean work of each fair key, and under ``None`` of all."""
    by_key: dict[str | None, list[float]] = {None: list(work.values())}
    for row in rows:
        if row["_seq"] in work:
            by_key.setdefault(_user(row), []).append(work[row["_seq"]])
    return {key: sum(times) / len(times) for key, times in by_key.items() if times}


def _past(
    row: Mapping[str, Any],
    begin: float,
    work: Mapping[int, float],
    guesses: Mapping[str | None, float],
    first: Mapping[int, float],
) -> PastItem:
    seq, user, ready = row["_seq"], _user(row), _ready_at(row)
    guess = guesses.get(user, guesses[None])
    return PastItem(
        number=seq,
        user=user,
        submitted=ready - begin,
        runs_for=work.get(seq, guess),
        group_key=row["_group_key"],
        priority=row["_priority"] or 0,
        cost=row["_cost"] or 1.0,
        flow_keys=tuple(json.loads(row["_flow_keys"] or "[]")),
        units=tuple(json.loads(row["_units"] or "[]")),
        waited=max(0.0, first[seq] - ready) if seq in first else None,
    )


def _user(row: Mapping[str, Any]) -> str:
    return NOBODY if row["_fair_key"] is None else str(row["_fair_key"])


def _ready_at(row: Mapping[str, Any]) -> float:
    """Return when an item could first run."""
    entered = _seconds(row["_enqueued_at"])
    return entered if row["_available_at"] is None else max(entered, _seconds(row["_available_at"]))


def _seconds(at: datetime) -> float:
    return at.timestamp()
