"""Reasons why an item is not running, from this process's replica."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from spark_queue.results import Explanation, Liveness
from spark_queue.rules.bounds import reason_of
from spark_queue.rules.explain import Situation, explain_live
from spark_queue.rules.limiting import Limited, keys_of
from spark_queue.rules.pacing import UnitsAsked
from spark_queue.rules.places import TIMED, State, Timed, freed_at
from spark_queue.rules.replacing import waits_of
from spark_queue.rules.rule_model import FullKey, ItemReason, Reason
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import replica_choice
from spark_queue.state.open_items import has_begun
from spark_queue.state.schedulers import expires_at
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
        limit, chains = store.reader_config(), replica.items.chains()
        known = {**replica.items, seq: row}.values()
        rows = [{**other, "_expires_at": expires_at(other, limit)} for other in known]
        head = store.status_head()
        settings, now = store.settings(head), store.clock.now()
        at = Situation(
            config=settings.config,
            paused=settings.paused,
            now=now.timestamp(),
            in_flight=head.claimed,
        )
    live = {row["_seq"]: LiveItem.of(row, at, pause_of(row, settings, now)) for row in rows}
    live |= {
        one.seq: one for chain in chains for one in _follow_chain([live[seq] for seq in chain], at)
    }
    one, has_rules = live[seq], has_pass(at.config) or at.config.max_in_flight is not None
    if has_rules and not (at.paused or at.ends(one) or one.place_at(at.now) in TIMED):
        # What starts before it only a claim says.
        return None
    group = row["_group_key"]
    of_group = (r["_seq"] for r in rows if group is not None and r["_group_key"] == group)
    members = [live[seq] for seq in sorted(of_group)]
    why = explain_live(live[seq], members, at)
    own = next(other for other in rows if other["_seq"] == seq)
    states = {member.seq: member.state for member in members}
    text = detail(own, why, states, at, store.handle.place.directory(), one.pause)
    until = until_of(own, why.reason, at, one.pause)
    return with_more(because(seq, why.reason, text, by=why.by, until=until), why.more)


def _units_at(why: ItemReason) -> datetime | None:
    """Return when the units of an item are there."""
    return None if why.until is None else datetime.fromtimestamp(why.until, timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveItem(Timed):
    """A live item, as the scheduler's rules look at it."""

    seq: int
    state: State
    losses: int
    available_at: float | None
    expires_at: float | None
    freed_at: float | None
    is_busy: bool = False
    limited: Sequence[Limited] = ()
    asked: Sequence[UnitsAsked] = ()
    pause: Pause | None = None
    """The one that keeps it back for longest."""
    follows: int | None = None
    replaced_by: int | None = None

    @property
    def kept_until(self) -> float:
        """Until when it is paused; minus infinity for never."""
        return -math.inf if self.pause is None else _seconds(self.pause.until) or math.inf

    @classmethod
    def of(cls, row: AnyRow, at: Situation, pause: Pause | None) -> LiveItem:
        """Look at a row; by bounds of keys none is explained here."""
        until = row["_lease_expires_at"]
        return cls(
            seq=row["_seq"],
            state=row["_state"],
            losses=row["_losses"],
            is_busy=has_begun(row),
            available_at=_seconds(row["_available_at"]),
            expires_at=_seconds(row["_expires_at"]),
            freed_at=None if until is None else _seconds(freed_at(until, at.config)),
            pause=pause,
        )


def _follow_chain(chain: Sequence[LiveItem], at: Situation) -> list[LiveItem]:
    """Return items that replace each other as the next claim finds them."""
    older, newest, busy = waits_of(chain)
    found = [replace(one, replaced_by=chain[-1].seq) for one in older]
    is_over = any(one.seq == busy and at.ends(one) for one in chain)
    if newest is not None and busy is not None and not is_over:
        found.append(replace(newest, follows=busy))
    return found


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
    until = None if why.short is None else _units_at(why)
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


def until_of(row: AnyRow, reason: Reason, at: Situation, pause: Pause | None) -> datetime | None:
    """Return until when a reason holds, where that is known."""
    if reason == "leased":
        return freed_at(utc(row["_lease_expires_at"]), at.config)
    if reason == "key paused" and pause is not None:
        return pause.until
    return utc(row["_available_at"]) if reason == "delayed" else None


def _seconds(local: datetime | None) -> float | None:
    return None if local is None else utc(local).timestamp()


def because(
    seq: int,
    reason: Reason,
    detail: str,
    *,
    by: int | None = None,
    until: datetime | None = None,
) -> Explanation:
    """Return an explanation."""
    return Explanation(seq=seq, reason=reason, detail=detail, by=by, until=until)


def with_more(explained: Explanation, more: int) -> Explanation:
    """Return an explanation that says how many more reasons hold."""
    if not more:
        return explained
    said = f"{explained.detail}; {plural(more, 'more reason holds', 'more reasons hold')} it"
    return replace(explained, more=more, detail=said)


def explain_refusal(seq: int, holder: int | None) -> Explanation:
    """Explain a row that never became an item."""
    if holder is None:
        return because(seq, "refused", "a reader was full when it came; enqueue it again")
    return because(seq, "duplicate", f"its key is held by item {holder}", by=holder)


def explain_end(seq: int, state: str, at: datetime, error: str | None) -> Explanation:
    """Explain an item that is over."""
    return because(seq, "finished", f"{state} at {say_instant(at)}{f': {error}' if error else ''}")


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


#: An item that is due, as any other.
_DUE = LiveItem(seq=0, state="ready", losses=0, available_at=None, expires_at=None, freed_at=None)


def _in_the_way(head: StatusHead, settings: Settings) -> Reason | None:
    """Say what holds up items that are due, where a claim gets none; ``None`` if it may be more."""
    config, paused = settings.config, settings.paused
    at = Situation(config=config, paused=paused, now=0.0, in_flight=head.claimed)
    why = explain_live(_DUE, (), at).reason
    if why != "runnable":
        return why
    # What nothing else holds up is held by its group or a key, or was looked at too late.
    kinds = {reason_of(bound) for bound in bounds_of(config)}
    kinds |= {"held by group"} if config.group_key is not None else set()
    return None if len(kinds) > 1 else next(iter(kinds), why)
