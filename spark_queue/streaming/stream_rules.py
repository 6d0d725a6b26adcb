"""Rules of the operators on streams: distinct, fair and serial, over events of a bucket."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple, cast

from spark_queue.config import OnFailure, QueueConfig
from spark_queue.rules import Ack, Dead, Nack, NewItem, Outcome, Release, Scheduler
from spark_queue.rules.fairness import Account, Level, Turns
from spark_queue.streaming.stream_pages import NEAR, PAGE, GroupTail, Pages, PageStore

#: What a row says. At one instant completions come first: they free what an arrival may take.
COMPLETION, ARRIVAL, CLOCK = 0, 1, 2


class Event(NamedTuple):
    """One row, as a bucket sees it; events of a batch are applied in the order of their fields."""

    at: int
    """When, in microseconds; 0 where rows have no time."""
    kind: int
    """:data:`COMPLETION`, :data:`ARRIVAL` or :data:`CLOCK`."""
    seq: int
    """The explicit sequence; of a completion, that of the item it is about."""
    key: str | None
    """The key or group."""
    number: float
    """What the operator needs besides: a cost, a round, the number of a run."""
    outcome: str | None
    """Of a completion, how it went."""
    row: int
    """Of an arrival, the number under which its row is kept; -1 for others."""


class Outgoing(NamedTuple):
    """A row that goes out."""

    row: int
    """The number of the row that came in."""
    number: float
    """What the operator says of it: its round, or the number of its run."""


class BucketRules:
    """The state of one bucket: what is known of its keys, in pages, and counts.

    Parameters
    ----------
    page : int
        How much is in a page, on average.
    """

    counts: dict[str, int]
    """How many events of each sort there were, since the query's first batch."""

    def __init__(self, *, page: int = PAGE) -> None:
        self._page = page
        self.load({"counts": {}}, {})

    def apply(self, events: Iterable[Event]) -> list[Outgoing]:
        """Take in events, in order, and answer what goes out."""
        raise NotImplementedError

    def dump(self) -> dict[str, Any]:
        """Write what has changed, and return the rest as plain data for JSON."""
        return {**self._write(), **self.pages.close(), "counts": self.counts}

    def load(self, plain: Mapping[str, Any], store: PageStore) -> None:
        """Go on where plain data was written, and pages are in a store.

        Before format 3 all was in the plain data: it is written to pages.
        """
        self.counts = dict(plain["counts"])
        self.pages = Pages(store, plain, self._page)
        self._read(plain)

    def count(self, what: str, more: int = 1) -> None:
        """Count some more."""
        if more:
            self.counts[what] = self.counts.get(what, 0) + more

    def _read(self, plain: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _write(self) -> dict[str, Any]:
        raise NotImplementedError


#: Where the holder of a key stands of which an earlier release has not kept the place.
_UNKNOWN = -(2**63)


class DistinctRules(BucketRules):
    """The keys of one bucket that are in flight, each with the place at which it passed.

    Counts: ``passed``, ``refused``, ``completed``, ``unknown`` for completions of keys that are not
    in flight, and ``stale`` for those that came before what is in flight.

    Parameters
    ----------
    ordered : bool
        Whether events have places, so that a completion frees only what came before it.
    page : int
        How much is in a page, on average.
    """

    def __init__(self, *, ordered: bool = False, page: int = PAGE) -> None:
        super().__init__(page=page)
        self._ordered = ordered

    def apply(self, events: Iterable[Event]) -> list[Outgoing]:
        """Pass arrivals whose key is free; free the keys of completions."""
        answers = []
        for event in events:
            if event.kind == ARRIVAL and self._passes(event):
                answers.append(Outgoing(event.row, 0.0))
            elif event.kind == COMPLETION:
                self._complete(event)
        return answers

    def _read(self, plain: Mapping[str, Any]) -> None:
        """Go on with the keys in flight; in format 1 a key had no place."""
        self._live: dict[str, int | None] = {}
        for entry in plain.get("live", ()):
            key, at = (entry, _UNKNOWN) if isinstance(entry, str) else entry
            self._live[key] = at

    def _write(self) -> dict[str, Any]:
        for key, at in self._live.items():
            if at is None:
                self.pages.drop(key)
            else:
                self.pages.put(key, at)
        self._live.clear()
        return {}

    # rule again: one item of a key
    def _passed_at(self, key: str) -> int | None:
        """Return the place at which a key passed that is in flight."""
        if key not in self._live:
            found = self.pages.find(key)
            self._live[key] = None if found is None else found[0]
        return self._live[key]

    def _passes(self, event: Event) -> bool:
        if event.key is not None:
            if self._passed_at(event.key) is not None:
                self.count("refused")
                return False
            self._live[event.key] = event.at
        self.count("passed")
        return True

    def _complete(self, event: Event) -> None:
        passed_at = None if event.key is None else self._passed_at(event.key)
        if event.key is None or passed_at is None:
            self.count("unknown")
            return
        # At one place completions come first: this one is of an earlier run.
        if self._ordered and event.at <= passed_at:
            self.count("stale")
            return
        self._live[event.key] = None
        self.count("completed")


_PRIORITY = 0

#: How many pages of keys whose rounds are over a micro-batch clears that it does not read anyway.
_CLEARED = 4


class FairRules(BucketRules):
    """The keys of one bucket whose last round is still to come, and the round that is served.

    Counts: ``tagged``; ``served`` for rows that moved the round on, and ``invalid`` for those
    without a round, by each bucket that they reach.

    Parameters
    ----------
    weights : mapping
        How many rows make up a key's part of a round; 1 where a key is not named.
    at_once : bool
        Whether the rounds that were given out in a batch have been served when the next one comes.
    page : int
        How much is in a page, on average.
    """

    def __init__(self, weights: Mapping[str, float], *, at_once: bool, page: int = PAGE) -> None:
        self._weights = weights
        self._at_once = at_once
        super().__init__(page=page)

    def apply(self, events: Iterable[Event]) -> list[Outgoing]:
        """Give each arrival its round."""
        accounts = self._level.accounts
        answers, highest = [], 0.0
        for event in events:
            if event.kind == ARRIVAL:
                account = accounts.get(event.key) or self._account(event.key)
                account.raw_last = account.start() + event.number
                number = account.last
                highest = max(highest, number)
                answers.append(Outgoing(event.row, number))
            elif event.kind == COMPLETION:
                self._serve(event.number)
        self.count("tagged", len(answers))
        if self._at_once and answers:
            self._serve(highest)
        return answers

    def _read(self, plain: Mapping[str, Any]) -> None:
        self._turns = Turns(self._weights, fair=True)
        self._turns.levels[_PRIORITY] = self._level = Level(_PRIORITY)
        self._level.advance(plain.get("round", 0.0), 0)
        for key, last in plain.get("last", ()):
            account = self._turns.account(_PRIORITY, key)
            account.raw_last = account.raw(last)

    def _write(self) -> dict[str, Any]:
        """Keep the last round of each key that is beyond the one that is served.

        Of the others nothing need be known: they go on from the round that is served.
        """
        turn = self._level.turn
        for key, account in self._level.accounts.items():
            if account.last > turn:
                self.pages.put(cast("str | None", key), account.last, due=account.last)
            else:
                self.pages.drop(cast("str | None", key))
        self._level.accounts.clear()
        for key in chain(self.pages.due_here(turn), self.pages.due(turn, _CLEARED)):
            self.pages.drop(key)
        return {"round": turn}

    def _account(self, key: str | None) -> Account:
        account = self._turns.account(_PRIORITY, key)
        known = self.pages.find(key)
        if known is not None:
            account.raw_last = account.raw(known[0])
        return account

    def _serve(self, number: float | None) -> None:
        if number is None or not math.isfinite(number):
            self.count("invalid")
        elif number > self._level.turn:
            self._level.advance(number, 0)
            self.count("served")


#: By the word of a completion, how a run ended.
OUTCOMES: Mapping[str, Outcome] = {
    "ack": Ack(),
    "nack": Nack(),
    "release": Release(),
    "dead": Dead(),
}

_SECOND = 1_000_000

_NO_TAIL = ((), 0, ())


@dataclass(slots=True)
class _Run:
    """An item that the scheduler has."""

    seq: int
    """The scheduler's number of the item."""
    row: int
    """The number of its row."""
    lease: int = 0
    """Under which it runs; 0 while it waits."""
    number: int = 0
    """How often it was started."""
    since: int | None = None
    """When that was; unknown of a state of format 2."""


@dataclass(slots=True)
class _Group:
    """The rows of a group: those that could start, and those that wait behind them."""

    tail: GroupTail
    """Those that wait behind, as they came."""
    live: dict[int, _Run] = field(default_factory=dict)
    """By its sequence, what the scheduler has."""

    # rule again: slots of a group, waiting head of a group
    def standing(self, on_failure: OnFailure) -> int:
        """Return how many items stand before the tail: with *skip*, no failed one that waits."""
        if on_failure == "block":
            return len(self.live)
        return sum(1 for run in self.live.values() if run.lease or not run.number)


class SerialRules(BucketRules):
    """The items of one bucket of groups that wait or run, in a scheduler.

    The scheduler has the groups that a micro-batch is about: those that its rows name, and those
    whose time comes. A row in no group goes out at once, and nothing is remembered of it.

    Counts: ``started``; ``duplicate`` for arrivals that wait or run already; ``ack``, ``nack``,
    ``release`` and ``dead`` by what completions said; ``buried`` for items whose last attempt or
    time-out was over; ``unknown`` for completions of items that do not run (second ones, those of
    nobody), ``stale`` for those of an earlier run.

    Parameters
    ----------
    config : QueueConfig
        The rules of the scheduler.
    page : int
        How much is in a page, on average.
    near : int
        How many rows that wait a group has in its page; those before them are in pieces.
    """

    _now: int
    """The latest instant so far."""

    def __init__(self, config: QueueConfig, *, page: int = PAGE, near: int = NEAR) -> None:
        self._config = config
        self._near = near
        super().__init__(page=page)

    def apply(self, events: Iterable[Event]) -> list[Outgoing]:
        """Admit arrivals, settle completions, and start what may run after each instant."""
        answers: list[Outgoing] = []
        for at, at_once in groupby(events, key=attrgetter("at")):
            self._now = max(self._now, at)
            for name in self.pages.due(self._now):
                self._group(name)
            for event in at_once:
                if event.kind == ARRIVAL:
                    self._arrive(event, answers)
                elif event.kind == COMPLETION:
                    self._complete(event)
            self._start(at, answers)
        return answers

    def _read(self, plain: Mapping[str, Any]) -> None:
        self._scheduler = Scheduler(self._config, keep_finished=False)
        if "scheduler" in plain:
            self._scheduler = Scheduler.restore(self._config, plain["scheduler"])
        self._now = plain.get("now", -sys.maxsize)
        self._next_piece: int = plain.get("piece", -1)
        self._groups: dict[str, _Group | None] = {}
        for name, live, tail in plain.get("groups", ()):
            group = self._groups[name] = self._new_group()
            numbers = plain["numbers"]
            for order, seq, row, lease, number in live:
                group.live[order] = _Run(seq, numbers[row], lease, number)
            for order, row in tail:
                group.tail.append(order, numbers[row])

    def _write(self) -> dict[str, Any]:
        for name, group in self._groups.items():
            if group is None:
                self.pages.drop(name)
                continue
            runs = [self._plain(order, run) for order, run in group.live.items()]
            rows = [run.row for run in group.live.values()]
            tail, waiting, self._next_piece = group.tail.plain(self._next_piece)
            value = [runs, tail] if group.tail else [runs]
            self.pages.put(name, value, rows + waiting, _due(runs))
        self._groups.clear()
        scheduler = {**self._scheduler.snapshot(), "items": [], "tally": {}}
        self._scheduler = Scheduler.restore(self._config, scheduler)
        return {"scheduler": scheduler, "now": self._now, "piece": self._next_piece}

    def _plain(self, order: int, run: _Run) -> list[Any]:
        item = self._scheduler.item(run.seq)
        assert item is not None  # noqa: S101 - for the type checker: it is live
        until = item.available_at if item.lease is None else item.lease_expires_at
        tag = self._scheduler.stored_tag(run.seq)
        known = [run.seq, tag, item.attempts, item.losses, run.lease, until]
        return [order, run.number, run.since, *known]

    def _group(self, name: str) -> _Group | None:
        """Return a group; bring it from its page to the scheduler, where it is not there yet."""
        if name in self._groups:
            return self._groups[name]
        self._groups[name] = None
        found = self.pages.find(name)
        if found is None:
            return None
        (runs, *tail), rows = found
        waiting = tail[0] if tail else _NO_TAIL
        group = self._groups[name] = self._new_group(waiting, rows[len(runs) :])
        for (order, number, since, *known), row in zip(runs, rows, strict=False):
            item = _item(name, order, *known)
            self._scheduler.apply([item])
            group.live[order] = _Run(item["seq"], row, item["lease"] or 0, number, since)
        return group

    def _new_group(self, tail: Sequence[Any] = _NO_TAIL, rows: Sequence[int] = ()) -> _Group:
        return _Group(GroupTail(self.pages.store, tail, rows, self._near))

    def _arrive(self, event: Event, answers: list[Outgoing]) -> None:
        if event.key is None:
            self.count("started")
            answers.append(Outgoing(event.row, 1.0))
            return
        group = self._group(event.key)
        if group is None:
            group = self._groups[event.key] = self._new_group()
        if event.seq in group.live or event.seq in group.tail:
            self.count("duplicate")
            return
        group.tail.append(event.seq, event.row)
        self._refill(event.key, group, event.at)

    def _refill(self, name: str, group: _Group, at: int) -> None:
        """Admit rows of a group while they could start: the others need not be looked at."""
        while group.tail and group.standing(self._config.on_failure) < self._config.group_limit:
            order, row = group.tail.pop()
            item = NewItem(payload=order, group_key=name)
            (admitted,) = self._scheduler.admit([item], at / _SECOND)
            group.live[order] = _Run(admitted.seq, row)

    def _complete(self, event: Event) -> None:
        said = "ack" if event.outcome is None else event.outcome
        group = None if event.key is None else self._group(event.key)
        run = None if group is None else group.live.get(event.seq)
        if event.key is None or group is None or run is None or not run.lease:
            self.count("unknown")
            return
        if event.number and event.number != run.number:
            self.count("stale")
            return
        self._scheduler.settle(run.lease, {run.seq: OUTCOMES[said]}, event.at / _SECOND)
        run.lease = 0
        self.count(said)
        if self._scheduler.state(run.seq) is None:
            del group.live[event.seq]
            if said == "nack":
                self.count("buried")
        self._after(event.key, group, event.at)

    def _after(self, name: str, group: _Group, at: int) -> None:
        self._refill(name, group, at)
        if not group.live:
            self._groups[name] = None

    def _start(self, now: int, answers: list[Outgoing]) -> None:
        while True:
            grant = self._scheduler.claim(now / _SECOND, sys.maxsize)
            for item in grant.items:
                group = cast("_Group", self._groups[cast("str", item.group_key)])
                run = group.live[cast("int", item.payload)]
                run.lease, run.since = grant.lease, now
                run.number += 1
                self.count("started")
                answers.append(Outgoing(run.row, float(run.number)))
            if not grant.dead:
                return
            # What is dead makes room for rows that were not admitted yet.
            self._bury(set(grant.dead), now)

    def _bury(self, dead: set[int], at: int) -> None:
        """Forget items that timed out too often."""
        self.count("buried", len(dead))
        found = [
            (run.seq, name, order)
            for name, group in self._groups.items()
            for order, run in ({} if group is None else group.live).items()
            if run.seq in dead
        ]
        # In the order in which they came: that of the groups is how this batch came upon them.
        for _, name, order in sorted(found):
            group = cast("_Group", self._groups[name])
            del group.live[order]
            self._after(name, group, at)


def _item(
    name: str,
    order: int,
    seq: int,
    tag: float,
    attempts: int,
    losses: int,
    lease: int,
    until: float | None,
) -> dict[str, Any]:
    """Return what a page has of an item as a scheduler takes it."""
    new = {"payload": order, "group_key": name}
    item = {"seq": seq, "raw_tag": tag, "enqueued_at": 0.0, "new": new}
    item |= {"attempts": attempts, "losses": losses, "lease": lease or None}
    if not lease:
        return item | {"available_at": until}
    return item | {"state": "claimed", "lease_expires_at": until}


def _due(runs: Iterable[Sequence[Any]]) -> int | None:
    """Return from when on time alone may change something, rounded down."""
    until = [run[-1] for run in runs if run[-1] is not None]
    return math.floor(min(until) * _SECOND) - 1 if until else None


class InFlight(NamedTuple):
    """Something that is in flight, or waits at the head of its key."""

    key: str | None
    state: str
    """In flight, or waits."""
    since: int | None
    """When it passed, or was last started."""
    seq: int | None
    """Of a row of a group, its sequence."""
    number: float | None
    """The run of the row, or the last round of the key."""
    behind: int
    """How many rows wait behind it in its group."""


def items_of(key: str | None, value: Any) -> Iterator[InFlight]:
    """Yield the items of an entry: of a key in flight, of a key with rounds, or of a group."""
    if isinstance(value, int):
        yield InFlight(key, "in flight", None if value == _UNKNOWN else value, None, None, 0)
    elif isinstance(value, float):
        yield InFlight(key, "waits", None, None, value, 0)
    else:
        runs, *tail = value
        behind = sum(len(GroupTail({}, plain, plain[2])) for plain in tail)
        for order, number, since, _, _, _, _, lease, _ in runs:
            yield InFlight(key, "in flight" if lease else "waits", since, order, number, behind)


def items_of_bucket(plain: Mapping[str, Any]) -> Iterator[InFlight]:
    """Yield the items of a bucket in a format before 3."""
    for entry in plain.get("live", ()):
        key, at = (entry, _UNKNOWN) if isinstance(entry, str) else entry
        yield from items_of(key, at)
    for key, last in plain.get("last", ()):
        yield from items_of(key, float(last))
    for key, live, tail in plain.get("groups", ()):
        for order, _, _, lease, number in live:
            yield InFlight(key, "in flight" if lease else "waits", None, order, number, len(tail))
