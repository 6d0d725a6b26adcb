"""Reasons why an item is not running, from this process's replica."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from spark_queue.clock import utc
from spark_queue.config import QueueConfig
from spark_queue.flow import Pause, bounds_of, has_pass
from spark_queue.log.disk.liveness import judge
from spark_queue.log.heads import StatusHead
from spark_queue.log.schema import CLAIMED
from spark_queue.log.settings import Settings
from spark_queue.reader_config import ReaderConfig
from spark_queue.results import Explanation, Liveness
from spark_queue.rules.bounds import reason_of
from spark_queue.rules.explain import Situation
from spark_queue.rules.limiting import keys_of
from spark_queue.rules.places import State, freed_at
from spark_queue.rules.rule_model import FullKey, ItemReason, Reason
from spark_queue.rules.scheduler import Scheduler
from spark_queue.rules.scheduler_state import room_beside
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import replica_choice
from spark_queue.state.open_items import OpenItems, Row
from spark_queue.state.schedulers import expires_at, scheduler, without_keys
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.wording import instant, plural

#: A row of Spark, or of a replica, by column.
AnyRow = Any


def live(store: Store, seq: int) -> Explanation | None:
    """Explain a live item from the replica; ``None`` where it is not in it."""
    with store.cache().lock:
        replica = replica_choice.at_hand(Snapshot(store))
        row = None if replica is None else replica.find(seq)
        if replica is None or row is None:
            return None
        is_led = seq in replica.items and replica.is_led(seq)
        if row["_lease"] is not None or (row["_group_key"] is not None and not is_led):
            # How often it was given back only the log says; and of the members before it none need
            # be known here.
            return None
        rows, debts = _near(replica.items, row), dict(replica.debts)
        head, limit = store.status_head(), store.reader_config()
        settings, now = store.settings(head), store.clock.now()
    config = settings.config
    judge = _judge(rows, settings, limit)
    for (by, key), debt in debts.items():
        judge.owe(by, key, debt)
    why = judge.explain(seq, now.timestamp(), by_claim=False)
    has_rules = has_pass(config) or config.max_in_flight is not None
    if has_rules and why.reason not in _BEFORE_ITS_TURN:
        # What starts before it only a claim says.
        return None
    at = Situation(
        config=config, paused=settings.paused, now=now.timestamp(), in_flight=head.claimed
    )
    own = {**row, "_expires_at": expires_at(row, limit)}
    states = {other["_seq"]: other["_state"] for other in rows}
    directory, pause = store.handle.place.directory(), pause_of(row, settings, now)
    text = detail(own, why, states, at, directory, pause)
    found = Explanation(seq=seq, reason=why.reason, detail=text, by=why.by, until=_until(why))
    return with_more(found, why.more)


#: Reasons of an item whose turn has not come, whatever starts before it.
_BEFORE_ITS_TURN: frozenset[Reason] = frozenset(
    ("paused", "expired", "replaced", "lease lost", "key paused", "follows", "delayed")
)


def _near(items: OpenItems, row: Row) -> list[Row]:
    """Return the items that may hold up one: in flight, of its group, or in the place of others."""
    group = () if row["_group_key"] is None else (row["_group_key"],)
    near = [*items.in_flight(), *items.members(group), row]
    chains = {one["_seq"] if one["_chain"] is None else one["_chain"] for one in near}
    near += [items[seq] for chain in chains for seq in items.of_chain(chain)]
    return list({one["_seq"]: one for one in near}.values())


def _judge(rows: Iterable[Row], settings: Settings, limit: ReaderConfig) -> Scheduler:
    """Return a scheduler of some items, by which it is known what each waits for."""
    judge = scheduler(without_keys(settings.config), rows, {}, (), reader_config=limit)
    judge.pause_keys(settings.key_ends())
    if settings.paused:
        judge.pause()
    return judge


def _until(why: ItemReason) -> datetime | None:
    """Return until when a reason holds, where that is known."""
    return None if why.until is None else datetime.fromtimestamp(why.until, timezone.utc)


def detail(
    row: AnyRow,
    why: ItemReason,
    states: Mapping[int, State],
    at: Situation,
    directory: Path | None,
    pause: Pause | None,
) -> str:
    """Say a reason in a sentence; life locks in a directory tell whether a holder lives."""
    holder = row["_worker_id"] or f"lease {row['_lease']}"
    until = None if row["_lease_expires_at"] is None else utc(row["_lease_expires_at"])
    if why.reason == "held by group" and why.by is not None:
        how = "in flight" if states[why.by] == CLAIMED else "waiting before it"
        return f"group {row['_group_key']!r} has item {why.by} {how}"
    texts: dict[Reason, str] = {
        "leased": f"leased by {holder} until {_say_end(until, at.config)}" if until else "",
        "paused": "the queue is paused; resume it",
        "follows": f"item {why.by} of its key has begun; it runs when that is over",
        "replaced": f"item {why.by} has its key; the next claim ends it",
        "lease lost": f"the lease of {holder} ran out for the last time; the next claim ends it",
        "key limit": _say_full(why.full) if why.full else "",
        "key rate": _say_short(why, at),
        "rate": _say_short(why, at),
        "key paused": "" if pause is None else _say_pause(row, pause),
        "limit": _say_in_flight(at),
        "runnable": "it waits for its turn and a claim",
    }
    if why.reason == "expired":
        return f"its time was over at {say_instant(row['_expires_at'])}"
    if why.reason == "delayed":
        return f"not before {say_instant(row['_available_at'])}"
    if why.reason == "leased" and until is not None:
        now = datetime.fromtimestamp(at.now, timezone.utc)
        if judge(directory, row["_worker_id"], until, now) is Liveness.GONE:
            return f"{holder} held it, and is gone; the next claim takes it over"
    if why.reason == "runnable" and until is not None:
        return f"the lease of {holder} ran out at {say_instant(until)}; it waits for a claim"
    return texts[why.reason]


def _say_full(full: FullKey) -> str:
    of = f"{full.by} {full.key!r} has {full.used} of {plural(full.most, 'allowed item')} in flight"
    return of if full.used >= full.most else f"{of}, and those before it take the rest"


def _say_in_flight(at: Situation) -> str:
    most = at.config.max_in_flight or 0
    said = f"{at.in_flight} items are in flight, {most} are allowed"
    return said if at.in_flight >= most else f"{said}, and those before it take the rest"


def _say_short(why: ItemReason, at: Situation) -> str:
    """Say which rate lacks the units of an item, and until when."""
    until = None if why.short is None else _until(why)
    if why.short is None or until is None or at.paces is None:
        return ""
    rate, key = at.paces.rate_of(why.short.key), why.short.key[1]
    whose = "the queue" if rate.by is None else f"{rate.by} {key!r}"
    said = f"{why.short.units:g} of {rate.most(key):g} units in {rate.per.total_seconds():g} s"
    return f"{whose} may start {said} again from {say_instant(until)} on"


def pause_of(row: AnyRow, settings: Settings, now: datetime) -> Pause | None:
    """Return the pause that keeps an item back for longest."""
    return settings.pause_on(keys_of(row), now) if settings.paused_at(now) else None


def _say_pause(row: AnyRow, pause: Pause) -> str:
    """Say which key of an item is paused."""
    until = "it is resumed" if pause.until is None else say_instant(pause.until)
    said = f"{pause.by} {pause.key!r} is paused until {until} by {pause.who}"
    expires_at = row["_expires_at"]
    if expires_at is not None and (pause.until is None or utc(expires_at) <= pause.until):
        said += f"; it expires before the pause ends, at {say_instant(expires_at)}"
    return said


def _say_end(until: datetime, config: QueueConfig) -> str:
    freed = freed_at(until, config)
    later = "" if freed == until else f", and left alone until {say_instant(freed)}"
    return f"{say_instant(until)}{later}"


def with_more(explained: Explanation, more: int) -> Explanation:
    """Return an explanation that says how many more reasons hold."""
    if not more:
        return explained
    said = f"{explained.detail}; {plural(more, 'more reason holds', 'more reasons hold')} it"
    return replace(explained, more=more, detail=said)


def explain_refusal(seq: int, holder: int | None) -> Explanation:
    """Explain a row that never became an item."""
    if holder is None:
        why = "a reader was full when it came; enqueue it again"
        return Explanation(seq=seq, reason="refused", detail=why)
    why = f"its key is held by item {holder}"
    return Explanation(seq=seq, reason="duplicate", detail=why, by=holder)


def explain_end(seq: int, state: str, at: datetime, error: str | None) -> Explanation:
    """Explain an item that is over."""
    why = f"{state} at {say_instant(at)}{f': {error}' if error else ''}"
    return Explanation(seq=seq, reason="finished", detail=why)


def say_instant(at: datetime) -> str:
    """Say an instant."""
    return instant(utc(at))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Items that are not over, by the reason why they do not run."""

    waiting: Mapping[Reason, int] = field(default_factory=dict)
    until: datetime | None = None
    """When time alone may let one of them run: the end of a delay, or of a lease."""


def standing(store: Store) -> Standing:
    """Count the items that are left in a queue; an empty one is not read."""
    with store.writing("status"):
        at = Snapshot(store)
        # In this order: what a status step moves has entered by then.
        _ = at.status
        if at.outstanding <= 0:
            return Standing()
        found, is_told = _waiting(at)
    waiting = found.waiting
    if not is_told:
        # All items are read for it, and others write in the meantime.
        waiting = planner_of(store).count_reasons(at, store.clock.now())
    left = {why: n for why, n in waiting.items() if n > 0}
    return Standing(waiting=left, until=found.until if left else None)


def _waiting(at: Snapshot) -> tuple[Standing, bool]:
    """Return what is left, and whether the head tells what holds up the items that are due."""
    head, settings = at.status, at.settings
    coming = planner_of(at.store).coming(at, at.store.clock.now())
    ready = at.outstanding - head.claimed
    waiting: dict[Reason, int] = {
        "leased": head.claimed,
        "delayed": coming.delayed,
        "key paused": coming.paused,
        "follows": coming.follows,
    }
    left = ready - coming.delayed - coming.paused - coming.follows
    why = _in_the_way(head, settings) if left > 0 else None
    if why is not None:
        waiting[why] = left
    until = min(filter(None, (coming.held_until, coming.due)), default=None)
    return Standing(waiting=waiting, until=until), left <= 0 or why is not None


def _in_the_way(head: StatusHead, settings: Settings) -> Reason | None:
    """Say what holds up items that are due, where a claim gets none; ``None`` if it may be more."""
    config = settings.config
    if settings.paused:
        return "paused"
    if room_beside(head.claimed, config.max_in_flight) == 0:
        return "limit"
    # What nothing else holds up is held by its group or a key, or was looked at too late.
    kinds = {reason_of(bound) for bound in bounds_of(config)}
    kinds |= {"held by group"} if config.group_key is not None else set()
    return None if len(kinds) > 1 else next(iter(kinds), "runnable")
