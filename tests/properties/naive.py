"""The rules of a queue once more, by brute force: lists, sorting, and no thought of speed.

It shares the vocabulary of the scheduler (what goes in and what comes out), but none of its rules.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from spark_queue.config import QueueConfig
from spark_queue.rules.outcomes import retry_draw
from spark_queue.rules.places import Holding
from spark_queue.rules.rule_model import Ack, Admitted, Dead, Defer, NewItem, Outcome, Release

TERMINAL = ("acked", "dead", "expired", "cancelled")
Key = tuple[int, Hashable]


@dataclass
class Thing:
    """An item of the naive queue."""

    seq: int
    new: NewItem
    priority: int
    key: Key
    tag: float
    accepted_at: float
    available_at: float
    origin: int | None
    state: str = "ready"
    lease: int | None = None
    until: float = math.inf
    attempts: int = 0
    losses: int = 0
    deferrals: int = 0

    @property
    def is_busy(self) -> bool:
        """Whether it has begun, and is not over."""
        has_begun = self.attempts or self.losses or self.deferrals or self.state == "claimed"
        return self.state in ("ready", "claimed") and bool(has_begun)


@dataclass
class Turn:
    """An eligible item with the slot it takes and its rank in the order of service."""

    thing: Thing
    turn: float
    slot: float
    overdue: bool
    rank: tuple[int, float]


class NaiveQueue:
    """A queue whose every answer is computed from all of its items."""

    def __init__(self, config: QueueConfig) -> None:
        self.config = config
        self.things: list[Thing] = []
        self.refused = 0
        self.seq = 0
        self.step = 0
        self.now = -math.inf
        self.paused = False
        self.pauses: dict[tuple[str, Hashable], float] = {}
        self.pointer: dict[int, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
        self.last: dict[Key, float] = defaultdict(float)
        self.regular: dict[Key, float] = defaultdict(lambda: -math.inf)
        self.overdue: dict[Key, float] = defaultdict(lambda: -math.inf)
        self.left: dict[tuple[str, Hashable], float] = {}
        self.passed: dict[Hashable, int] = {}
        self.owed: dict[tuple[str | None, Hashable], int] = defaultdict(int)
        self.shut: set[tuple[str | None, Hashable]] = set()
        self.is_over = False
        self.gone: set[int] = set()

    def begin(self, now: float = -math.inf) -> None:
        """Count a step."""
        self.step += 1
        self.now = max(self.now, now)

    def find(self, seq: int) -> Thing | None:
        """Return the item with a seq."""
        return next((thing for thing in self.things if thing.seq == seq), None)

    def live(self) -> list[Thing]:
        """Return the items that are ready or claimed."""
        return [thing for thing in self.things if thing.state in ("ready", "claimed")]

    def admit(
        self, items: Iterable[NewItem], now: float, *, replaces: bool = False
    ) -> list[Admitted]:
        """Enqueue items."""
        self.begin(now)
        items = list(items)
        if not replaces or self.config.dedup_key is None:
            return [self._admit(new, None) for new in items]
        last = {new.dedup_key: self.seq + 1 + at for at, new in enumerate(items)}
        return [self._admit(new, None, last[new.dedup_key]) for new in items]

    def of_key(self, thing: Thing) -> list[Thing]:
        """Return the live items of an item's dedup key."""
        key = thing.new.dedup_key
        if key is None or self.config.dedup_key is None:
            return [thing]
        return [other for other in self.live() if other.new.dedup_key == key]

    def replaced(self) -> list[tuple[int, int]]:
        """Return the items that others have replaced, each with the newest of its key."""
        found = []
        for thing in self.live():
            same = self.of_key(thing)
            waits = [other for other in same if not other.is_busy]
            if not thing.is_busy and waits[-1] is not thing:
                found.append((thing.seq, same[-1].seq))
        return found

    def follows(self, thing: Thing) -> bool:
        """Tell whether an item waits for another one of its key that has begun."""
        is_waiting = thing.state == "ready" and not thing.is_busy
        return is_waiting and any(other.is_busy for other in self.of_key(thing))

    def redrive(self, seqs: Iterable[int], now: float, *, again: bool = False) -> list[Admitted]:
        """Enqueue finished items again."""
        self.begin(now)
        answers = []
        for seq in seqs:
            thing = self.find(seq)
            if thing is None or thing.state not in ("dead", "expired", "cancelled"):
                continue
            if not again and any(other.origin == seq for other in self.things):
                continue
            if not again and seq in self.gone:
                continue
            new = thing.new
            repeated = NewItem(
                payload=new.payload,
                dedup_key=new.dedup_key,
                fair_key=new.fair_key,
                group_key=new.group_key,
                priority=new.priority,
                cost=new.cost,
                flow_keys=new.flow_keys,
                units=new.units,
            )
            answers.append(self._admit(repeated, seq))
        return answers

    def claim(
        self, now: float, limit: int, *, lease: float | None = None, run: int = 1
    ) -> tuple[list[tuple[int, float]], list[int], list[int]]:
        """Return what a claim serves (with turns), expires, and makes dead."""
        self.begin(now)
        if self.paused:
            return [], [], []
        older = self.replaced()
        expired = self._expire()
        dead = self._bury()
        for seq, _ in older:
            if (thing := self.find(seq)) is not None and thing.state == "ready":
                thing.state = "cancelled"
                self.gone.add(seq)
        served = self._serve(limit, run)
        seconds = self.config.lease.total_seconds() if lease is None else lease
        for turn in served:
            turn.thing.losses += turn.thing.state == "claimed"
            turn.thing.state = "claimed"
            turn.thing.lease = self.step
            turn.thing.until = self.now + seconds
        return [(turn.thing.seq, turn.turn) for turn in served], expired, dead

    def settle(self, lease: int, outcomes: Mapping[int, Outcome], now: float) -> list[int]:
        """Apply outcomes, and return what was lost."""
        self.begin(now)
        lost = []
        for seq, outcome in outcomes.items():
            thing = self.find(seq)
            if thing is None or thing.state != "claimed" or thing.lease != lease:
                lost.append(seq)
            else:
                self._apply(thing, outcome)
        return lost

    def renew(self, lease: int, now: float, by: float, seqs: Iterable[int]) -> list[int]:
        """Extend a lease, and return what was lost."""
        self.begin(now)
        lost = []
        for seq in seqs:
            thing = self.find(seq)
            if thing is None or thing.state != "claimed" or thing.lease != lease:
                lost.append(seq)
            else:
                thing.until = self.now + by
        return lost

    def cancel(self, seqs: Iterable[int], now: float) -> list[int]:
        """Cancel live items, and return which."""
        self.begin(now)
        found = [t for seq in seqs if (t := self.find(seq)) is not None and t in self.live()]
        for thing in found:
            thing.state = "cancelled"
        return [thing.seq for thing in found]

    def expire(self, now: float) -> list[int]:
        """Expire what is past its deadline, and return it."""
        self.begin(now)
        return self._expire()

    def configure(self, config: QueueConfig, now: float) -> None:
        """Change limits, rates and weights."""
        self.begin(now)
        before, self.config = self.config, config
        for (by, key), tat in self.owed.items():
            old, new = (self._rate_of(by, key, of)[0] for of in (before, config))
            ahead = tat - _ns(self.now)
            if ahead > 0 and old and new:
                self.owed[by, key] = _ns(self.now) + math.ceil(Fraction(old) * ahead / new)
            elif ahead > 0 and old != new:
                self.owed[by, key] = _ns(self.now)
        for key in {*self.last, *self.regular, *self.overdue}:
            old, new = _weight(before, key[1]), _weight(config, key[1])
            pointer = self.pointer[key[0]][0]
            for turns in (self.last, self.regular, self.overdue):
                turns[key] = pointer + (turns[key] - pointer) * (old / new)
            for thing in self.live():
                if thing.key == key:
                    thing.tag = pointer + (thing.tag - pointer) * (old / new)

    def counts(self) -> dict[str, int]:
        """Count the items by state."""
        states = [thing.state for thing in self.things]
        found = {state: states.count(state) for state in ("ready", "claimed", *TERMINAL)}
        return {**found, "enqueued": len(self.things), "refused": self.refused}

    def eligible(self, run: int) -> list[Thing]:
        """Return what may be claimed, limits of the whole queue aside."""
        found = []
        for group in {_group(self.config, thing) for thing in self.live()}:
            members = [t for t in self.live() if _group(self.config, t) == group]
            if group is None:
                found += [thing for thing in members if self._is_claimable(thing)]
            else:
                found += self._eligible_members(members, run)
        return sorted(found, key=lambda thing: thing.seq)

    def is_paused(self, thing: Thing) -> bool:
        """Tell whether a key of an item is paused."""
        new = thing.new
        keys = [("f", new.fair_key), ("g", new.group_key), ("e", (*new.flow_keys, None)[0])]
        return any(self.pauses.get(key, -math.inf) > self.now for key in keys)

    def _is_lapsed(self, thing: Thing) -> bool:
        return thing.state == "claimed" and thing.until <= self.now

    def _is_lost(self, thing: Thing) -> bool:
        return self._is_lapsed(thing) and not self.is_paused(thing)

    def _is_claimable(self, thing: Thing) -> bool:
        is_due = thing.state == "ready" and thing.available_at <= self.now
        is_due = is_due and not self.follows(thing)
        return (is_due and not self.is_paused(thing)) or self._is_lost(thing)

    def _eligible_members(self, members: list[Thing], run: int) -> list[Thing]:
        in_flight = [t for t in members if t.state == "claimed"]
        held = [t for t in in_flight if not self._is_lost(t)]
        if run > 1 and held:
            return []
        allowance = self.config.group_limit * run
        free, again = allowance - len(in_flight), allowance - len(held)
        found = []
        for thing in sorted(members, key=lambda t: t.seq):
            if thing.state == "ready" and not self._is_claimable(thing):
                if self.config.on_failure == "block":
                    break
            elif thing.state == "ready" and free > 0:
                free -= 1
                found.append(thing)
            elif self._is_lost(thing) and again > 0:
                again -= 1
                found.append(thing)
        return found

    def _keys(self, thing: Thing) -> list[tuple[str, Hashable]]:
        """Return the limited keys of an item: by the fair key ``f``, or by ``e``."""
        keys = {"f": thing.new.fair_key, "e": (*thing.new.flow_keys, None)[0]}
        return [(one.by, keys[one.by]) for one in self.config.limits if keys[one.by] is not None]

    def _left(self) -> dict[tuple[str, Hashable], float]:
        """Return how many items of each limited key may start."""
        in_flight = [key for t in self.things if t.state == "claimed" for key in self._keys(t)]
        most = {one.by: one for one in self.config.limits}
        return {
            (by, key): math.inf
            if (bound := most[by].overrides.get(str(key), most[by].default)) is None
            else bound - in_flight.count((by, key))
            for thing in self.live()
            for by, key in self._keys(thing)
        }

    def _serve(self, limit: int, run: int) -> list[Turn]:
        eligible, room = self.eligible(run), math.inf
        self.left, self.passed = self._left(), {}
        self.shut, self.is_over = set(), False
        kept = [thing for thing in eligible if thing.state == "ready" and not self._has_room(thing)]
        for thing in kept:
            self._keep_back(thing)
        eligible = [thing for thing in eligible if thing not in kept]
        for thing in eligible:
            if thing.state == "ready" and self._lacking(thing):
                self._keep_back(thing)
        if self.config.max_in_flight is not None:
            in_flight = [t for t in self.things if t.state == "claimed"]
            room = max(0, self.config.max_in_flight - len(in_flight))
        served = self._pass(eligible, limit, room) if room else []
        done = [turn.thing for turn in served]
        lost = [t for t in eligible if t.state == "claimed" and t not in done]
        return served + self._pass(lost, limit - len(served), math.inf)

    def _pass(self, eligible: list[Thing], limit: int, room: float) -> list[Turn]:
        served: list[Turn] = []
        for turn in self._in_order(eligible):
            if len(served) >= limit or self.is_over:
                break
            if not self._admits(turn.thing):
                continue
            room -= turn.thing.state == "ready"
            if room < 0:
                break
            self._charge(turn.thing)
            served.append(turn)
        for turn in served:
            self._hand_out(turn)
        return served

    def _has_room(self, thing: Thing) -> bool:
        return all(self.left[key] > 0 for key in self._keys(thing))

    def _keep_back(self, thing: Thing) -> None:
        group = _group(self.config, thing)
        if group is not None:
            self.passed[group] = min(thing.seq, self.passed.get(group, thing.seq))

    def _admits(self, thing: Thing) -> bool:
        if self.passed.get(_group(self.config, thing), math.inf) < thing.seq:
            return False
        if (thing.state == "claimed" or self._has_room(thing)) and self._has_units(thing):
            return True
        self._keep_back(thing)
        return False

    def _charge(self, thing: Thing) -> None:
        for key in self._keys(thing) if thing.state == "ready" else ():
            self.left[key] -= 1
        for at, cost, _ in self._prices(thing):
            self.owed[at] = max(self.owed[at], _ns(self.now)) + cost

    def _has_units(self, thing: Thing) -> bool:
        if any(at in self.shut for at, _, _ in self._prices(thing)):
            return False
        lacking = self._lacking(thing)
        self.shut.update(at for at in lacking if at[0] is not None)
        self.is_over = lacking != [] and all(by is None for by, _ in lacking)
        return not lacking

    def _lacking(self, thing: Thing) -> list[tuple[str | None, Hashable]]:
        """Return the keys of rates that lack the units of a thing."""
        now, lacking = _ns(self.now), []
        for at, cost, allowance in self._prices(thing):
            ahead = max(self.owed[at], now) - now
            if ahead + cost > allowance and (ahead > 0 or cost <= allowance):
                lacking.append(at)
        return lacking

    def _prices(self, thing: Thing) -> list[tuple[tuple[str | None, Hashable], int, int]]:
        """Return the keys of rates that a thing has, what it costs of each, and how much may be."""
        keys = {"f": thing.new.fair_key, "e": (*thing.new.flow_keys, None)[0], None: ""}
        found = []
        for rate in self.config.rates:
            key = keys[rate.by]
            limit, per = self._rate_of(rate.by, key, self.config)
            if key is None or limit is None:
                continue
            units = thing.new.units[0] if rate.units is not None and thing.new.units else 1
            burst = (
                max(Fraction(1), Fraction(limit) / per / 4) if rate.burst is None else rate.burst
            )
            one = math.ceil(per * 10**9 / Fraction(limit))
            cost = math.ceil(Fraction(units) * per * 10**9 / Fraction(limit))
            found.append(((rate.by, key), cost, math.ceil(Fraction(burst) * one)))
        return found

    def _rate_of(
        self, by: str | None, key: Hashable, config: QueueConfig
    ) -> tuple[float | None, Fraction]:
        rate = next(one for one in config.rates if one.by == by)
        limit = rate.overrides.get(str(key), rate.limit) if key is not None else rate.limit
        return limit, Fraction(rate.per.total_seconds())

    def _in_order(self, eligible: list[Thing]) -> list[Turn]:
        turns = []
        for key in {thing.key for thing in eligible}:
            turns += self._take_slots(key, [thing for thing in eligible if thing.key == key])
        turns.sort(key=lambda turn: turn.thing.seq)
        before: dict[Hashable, list[Turn]] = defaultdict(list)
        for turn in turns:
            group = _group(self.config, turn.thing)
            if group is None:
                continue
            level = [t.turn for t in before[group] if t.thing.priority == turn.thing.priority]
            turn.rank = max([turn.rank, *[t.rank for t in before[group]]])
            turn.turn = max([turn.turn, *level])
            before[group].append(turn)
        return sorted(turns, key=lambda turn: (turn.rank, turn.thing.seq))

    def _take_slots(self, key: Key, things: list[Thing]) -> list[Turn]:
        pointer = self.pointer[key[0]]
        on_time = [t for t in things if (t.tag, t.seq) > pointer and t.tag > self.regular[key]]
        if len(on_time) == len(things):
            return [Turn(t, t.tag, t.tag, False, (-key[0], t.tag)) for t in things]
        slots = [(thing.tag, False) for thing in on_time]
        at = None
        for thing in things:
            if thing not in on_time:
                inc = thing.new.cost / _weight(self.config, key[1])
                at = max(pointer[0], self.overdue[key] + inc) if at is None else at + inc
                slots.append((at, True))
        return [
            Turn(thing, turn, turn, overdue, (-key[0], turn))
            for thing, (turn, overdue) in zip(things, sorted(slots), strict=True)
        ]

    def _hand_out(self, turn: Turn) -> None:
        thing = turn.thing
        handed = self.overdue if turn.overdue else self.regular
        handed[thing.key] = max(handed[thing.key], turn.slot)
        at = self.pointer[thing.priority]
        self.pointer[thing.priority] = max(at, (turn.turn, thing.seq))

    def _expire(self) -> list[int]:
        found = [
            thing
            for thing in self.live()
            if thing.state == "ready" or self._is_lapsed(thing)
            if thing.new.expires_at is not None and thing.new.expires_at <= self.now
        ]
        for thing in found:
            thing.state = "expired"
        return [t.seq for t in sorted(found, key=lambda t: (t.new.expires_at, t.seq))]

    def _bury(self) -> list[int]:
        allowed = math.inf if self.config.max_losses is None else self.config.max_losses
        found = [t for t in self.things if self._is_lapsed(t) and t.losses + 1 >= allowed]
        for thing in found:
            thing.state = "dead"
            thing.losses += 1
        return [thing.seq for thing in found]

    def _apply(self, thing: Thing, outcome: Outcome) -> None:
        if isinstance(outcome, Ack):
            thing.state = "acked"
        elif isinstance(outcome, Dead):
            thing.state = "dead"
        elif isinstance(outcome, Release):
            thing.state = "ready"
        elif isinstance(outcome, Defer):
            thing.deferrals += 1
            most = math.inf if self.config.max_deferrals is None else self.config.max_deferrals
            thing.state = "dead" if thing.deferrals >= most else "ready"
            thing.available_at = self.now + outcome.after
        else:
            thing.attempts += 1
            most = math.inf if self.config.max_attempts is None else self.config.max_attempts
            thing.state = "dead" if thing.attempts >= most else "ready"
            draw = retry_draw(thing.seq, thing.attempts)
            delay = self.config.retry.delay_after(thing.attempts, draw).total_seconds()
            thing.available_at = self.now + (delay if outcome.after is None else outcome.after)

    def _admit(self, new: NewItem, origin: int | None, last: int | None = None) -> Admitted:
        self.seq += 1
        holder = self._holder(new.dedup_key, origin)
        older = None if last is None else self._replaceable(holder)
        is_free = holder is None or older is not None
        if last is not None and new.dedup_key is not None and is_free:
            holder = None if last == self.seq else last
        if holder is not None:
            self.refused += 1
            holding = None if is_free else self._holding(holder)
            return Admitted(seq=self.seq, duplicate_of=holder, holder=holding, origin=origin)
        has_levels, has_groups = self.config.priority is not None, self.config.group_key is not None
        priority, group = new.priority * has_levels, new.group_key if has_groups else None
        ahead = self._ahead_in(group)
        priority = min([priority, *(thing.priority for thing in ahead[-1:])])
        key = (priority, new.fair_key if self.config.fair_key is not None else None)
        inc = new.cost / _weight(self.config, key[1])
        if older is not None and self._takes_place(older, key, new):
            tag = older.tag
        else:
            self.last[key] = tag = max(self.pointer[priority][0], self.last[key]) + inc
        if ahead and ahead[-1].priority == priority:
            tag = max(tag, ahead[-1].tag)
        available_at = -math.inf if new.available_at is None else new.available_at
        self.things.append(Thing(self.seq, new, priority, key, tag, self.now, available_at, origin))
        if older is None:
            return Admitted(seq=self.seq, origin=origin)
        if older.is_busy:
            return Admitted(seq=self.seq, origin=origin, follows=older.seq)
        return Admitted(seq=self.seq, origin=origin, replaces=older.seq)

    def _ahead_in(self, group: Hashable) -> list[Thing]:
        return [
            thing
            for thing in self.live()
            if group is not None and thing.new.group_key == group
            if (thing.tag, thing.seq) > self.pointer[thing.priority]
        ]

    def _holding(self, holder: int) -> Holding | None:
        found = self.find(holder)
        if found is None or found not in self.live():
            return "over"
        return "busy" if found.is_busy else "waits"

    def _replaceable(self, holder: int | None) -> Thing | None:
        older = None if holder is None else self.find(holder)
        if older is None or older not in self.live():
            return None
        return None if older.is_busy and self.config.dedup_scope != "live" else older

    def _takes_place(self, older: Thing, key: Key, new: NewItem) -> bool:
        is_grouped = older.new.group_key is not None or new.group_key is not None
        return not older.is_busy and older.key == key and not is_grouped

    def _holder(self, dedup_key: Hashable, origin: int | None) -> int | None:
        if dedup_key is None or self.config.dedup_key is None:
            return None
        same = [thing for thing in self.things if thing.new.dedup_key == dedup_key]
        same = [thing for thing in same if thing in self.live()] or same
        if not same or same[-1].seq == origin:
            return None
        scope, holder = self.config.dedup_scope, same[-1]
        holds = holder in self.live() or scope == "forever"
        if isinstance(scope, timedelta):
            holds = holds or holder.accepted_at + scope.total_seconds() > self.now
        return holder.seq if holds else None


def _ns(seconds: float) -> int:
    return round(seconds * 1e6) * 1000


def _group(config: QueueConfig, thing: Thing) -> Hashable:
    return None if config.group_key is None else thing.new.group_key


def _weight(config: QueueConfig, fair_key: Hashable) -> float:
    return config.weights.get(fair_key, 1.0) if isinstance(fair_key, str) else 1.0
