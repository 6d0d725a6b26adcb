"""Explanations of a scheduler: why an item is not running, and when that may change."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from spark_queue.config import QueueConfig
from spark_queue.flow import is_paced, limit_of
from spark_queue.rules import granting
from spark_queue.rules.bounds import Played
from spark_queue.rules.grouping import in_the_way
from spark_queue.rules.limiting import Limited
from spark_queue.rules.pacing import Paces, instant_of, seconds_of
from spark_queue.rules.places import LAPSED, TIMED, WAITS
from spark_queue.rules.rule_model import FullKey, ItemReason, Reason, Record
from spark_queue.rules.scheduler_state import (
    TERMINAL,
    SchedulerState,
    room_beside,
)
from spark_queue.rules.timing import last_loss

#: Of a queue without a rule by which items that start keep others back.
NOTHING_PLAYED = Played()


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The state of a queue's rules at an instant."""

    config: QueueConfig
    paused: bool
    now: float
    in_flight: int
    """Items in flight, without those that the next claim ends."""
    paces: Paces | None = None
    """What keys owe."""
    flights: Mapping[Limited, Sequence[int]] = field(default_factory=dict)
    """The same by each key of a limit: which."""
    played: Played = NOTHING_PLAYED
    """What a claim of any length would take now: others wait behind that."""
    starts: Mapping[Limited, Sequence[int]] = field(default_factory=dict)
    """Which of that need room, by each key of a limit."""
    starting: int = 0
    """How many of it do."""

    def ends(self, item: Record) -> bool:
        """Whether a claim would end the item before it looks for others to serve."""
        place = item.place_at(self.now)
        is_over = place in WAITS and item.has_expired(self.now)
        is_over = is_over or item.replaced_by is not None
        return is_over or (place in LAPSED and self.is_worn_out(item))

    def is_worn_out(self, item: Record) -> bool:
        """Whether the item dies when one more lease of it has run out."""
        return item.losses >= last_loss(self.config.max_losses)

    def keeps_back(self, item: Record) -> Iterator[ItemReason]:
        """Yield the bounds of keys that pass an item whose time has come."""
        if item.state == "ready":
            yield from self._full_keys(item)
        yield from self._short_keys(item)

    # rule: limit of a key
    def _full_keys(self, item: Record) -> Iterator[ItemReason]:
        """Yield the keys of an item without room, each with the first item in flight of it."""
        for number, key in item.limited:
            limit, flights = limit_of(self.config, number), self.flights.get((number, key), ())
            most, starts = limit.most(key), self.starts.get((number, key), ())
            if most is not None and len(flights) + len(starts) >= most:
                full = FullKey(by=limit.by, key=key, used=len(flights), most=most)
                first = min(flights or starts, default=None)
                yield ItemReason(reason="key limit", by=first, full=full)

    # rule: rate of a key
    def _short_keys(self, item: Record) -> Iterator[ItemReason]:
        """Yield the keys of an item that lack units, each with the instant when it has them."""
        if self.paces is None:
            return
        now = instant_of(self.now)
        lacking = dict(self.paces.lacking(item.asked, now))
        for asked in item.asked:
            # None before the item that closed the key: a smaller one does not pass it.
            at = max(lacking.get(asked, now), self.played.closed.get(asked.key, now))
            if at <= now:
                continue
            reason: Reason = "rate" if self.paces.is_whole(asked.key) else "key rate"
            yield ItemReason(reason=reason, until=seconds_of(at), short=asked)

    def with_flights(self, items: Iterable[Record]) -> Situation:
        """Return the situation with items in flight, without those that the next claim ends."""
        flights: dict[Limited, list[int]] = {}
        staying = [item for item in items if not self.ends(item)]
        for item in staying:
            for key in item.limited:
                flights.setdefault(key, []).append(item.seq)
        return replace(self, in_flight=len(staying), flights=flights)

    def after(self, played: Played, items: Iterable[Record]) -> Situation:
        """Return the situation after a claim of any length, by the items that it would take."""
        starts: dict[Limited, list[int]] = {}
        waiting = [item for item in items if item.state == "ready"]
        for item in waiting:
            for key in item.limited:
                starts.setdefault(key, []).append(item.seq)
        paces = self.paces and self.paces.after(played.debts)
        return replace(self, played=played, starts=starts, starting=len(waiting), paces=paces)

    def is_full(self) -> bool:
        """Whether no further item may be in flight."""
        return room_beside(self.in_flight + self.starting, self.config.max_in_flight) == 0


def explain(state: SchedulerState, seq: int, now: float, *, by_claim: bool) -> ItemReason:
    """Say why an item is, or is not, running, by a claim that starts others only if asked."""
    record = state.records.get(seq)
    if record is None:
        holder = state.refused.get(seq)
        if holder is None:
            return ItemReason(reason="unknown")
        return ItemReason(reason="duplicate", by=holder)
    if record.state in TERMINAL:
        return ItemReason(reason="finished", state=record.state)
    at, members = _situation(state, now), state.serial.members(record)
    has_rules = state.bounds.is_any or state.config.max_in_flight is not None
    if by_claim and has_rules and not at.paused:
        played = granting.play(state, at.now)
        at = at.after(played, (state.records[seq] for seq in played.starting))
    with _free_followers(state.records, [record, *members], at):
        return explain_live(record, members, at)


@contextmanager
def _free_followers(
    records: Mapping[int, Record], items: Iterable[Record], at: Situation
) -> Iterator[None]:
    """Let items wait for none that the next claim ends, for a while."""
    waiting = [(one, one.follows) for one in items if one.follows is not None]
    freed = [(one, seq) for one, seq in waiting if at.ends(records[seq])]
    for one, _ in freed:
        one.follows = None
    try:
        yield
    finally:
        for one, seq in freed:
            one.follows = seq


# rule: reason of an item
def explain_live(item: Record, members: Iterable[Record], at: Situation) -> ItemReason:
    """Give the first reason why a live item is not claimed, and how many more there are.

    Reasons are tried in the order lease, pause, end, pause of a key, delay, group, limit of a key,
    rate of a key, rate of the queue, limit of the queue. A lapsed lease or an expired member is no
    reason: the next claim removes it. What has ended waits for nothing more, what waits for its
    time not yet for its group, and what its group holds not yet for a limit or a rate.

    Parameters
    ----------
    members : iterable
        The live members of the item's group, in seq order; at least the first ones.
    """
    found = [*_reasons(item, members, at)]
    first = found[0] if found else ItemReason(reason="runnable")
    return replace(first, state=item.state, more=max(0, len(found) - 1))


def _reasons(item: Record, members: Iterable[Record], at: Situation) -> Iterator[ItemReason]:
    place = item.place_at(at.now)
    if place == "held":
        yield ItemReason(reason="leased", until=item.freed_at)
        return
    if at.paused:
        yield ItemReason(reason="paused")
    if at.ends(item):
        yield _explain_end(item, at)
    elif place in TIMED:
        yield from _explain_time(item, at)
    else:
        yield from _explain_place(item, members, at)


# rule: next event
def next_event_at(state: SchedulerState, now: float, *, by_rates: bool) -> float | None:
    """Return when time alone could make something claimable, by lacking units only if asked."""
    if state.paused:
        return None
    at = state.timing.next_at()
    if by_rates and is_paced(state.config):
        at = min(filter(None, (at, granting.play(state, now).next_at)), default=None)
    return None if at is None else max(at, now)


def _explain_end(item: Record, at: Situation) -> ItemReason:
    if item.has_expired(at.now):
        return ItemReason(reason="expired")
    if item.replaced_by is not None:
        return ItemReason(reason="replaced", by=item.replaced_by)
    return ItemReason(reason="lease lost")


def _explain_time(item: Record, at: Situation) -> Iterator[ItemReason]:
    if (until := item.kept_until) > at.now:
        yield ItemReason(reason="key paused", until=until if until < math.inf else None)
    if item.follows is not None:
        yield ItemReason(reason="follows", by=item.follows)
    if item.state == "ready" and item.available_at is not None and item.available_at > at.now:
        yield ItemReason(reason="delayed", until=item.available_at)


def _explain_place(item: Record, members: Iterable[Record], at: Situation) -> Iterator[ItemReason]:
    if item.seq in at.played.starting:
        return
    staying = [member for member in members if not at.ends(member)]
    other = _in_the_way(item, staying, at)
    if other is not None:
        yield ItemReason(reason="held by group", by=other.seq)
        return
    yield from at.keeps_back(item)
    if item.state == "ready" and at.is_full():
        yield ItemReason(reason="limit")


# rule again: pass of a claim
def _in_the_way(item: Record, members: Sequence[Record], at: Situation) -> Record | None:
    """Return the member of its group that an item waits for."""
    blocking = at.config.on_failure == "block"

    def find(one: Record) -> Record | None:
        return in_the_way(one, members, at.now, limit=at.config.group_limit, blocking=blocking)

    other = find(item)
    if other is not None:
        return other
    before = (m for m in members if m.seq < item.seq and m.seq not in at.played.starting)
    kept = (m for m in before if m.place_at(at.now) in ("due", "lost"))
    return next((m for m in kept if any(at.keeps_back(m)) and find(m) is None), None)


def _situation(state: SchedulerState, now: float) -> Situation:
    at = Situation(
        config=state.config,
        paused=state.paused,
        now=max(now, state.clock),
        in_flight=state.tally["claimed"],
        paces=state.bounds.paces,
    )
    if not state.bounds.is_any and not at.is_full():
        return at
    return at.with_flights(state.records[seq] for seqs in state.leases.values() for seq in seqs)
