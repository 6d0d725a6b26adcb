"""Rules of the operators on streams: distinct, fair and serial, over events of a bucket."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, cast

from spark_queue.config import OnFailure, QueueConfig
from spark_queue.rules import Ack, Dead, Nack, NewItem, Outcome, Release, Scheduler
from spark_queue.rules.dedup_keys import Distinct
from spark_queue.rules.fairness import Level, Turns

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


class BucketRules(Protocol):
    """The state of one bucket."""

    counts: dict[str, int]
    """How many events of each sort there were, since the query's first batch."""

    def apply(self, events: Iterable[Event]) -> list[Outgoing]:
        """Take in events, in order, and answer what goes out."""

    def pending(self) -> Iterable[int]:
        """Return the numbers of the rows that may go out later."""

    def remembers_keys(self) -> bool:
        """Tell whether something is known of a key, which a change of its text would lose."""

    def dump(self) -> dict[str, Any]:
        """Return everything but the rows as plain data for JSON."""

    def load(self, plain: Mapping[str, Any]) -> None:
        """Go on where plain data was written."""


class Counting:
    """Counts of what happened, which stay when everything else is gone."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def count(self, what: str, more: int = 1) -> None:
        """Count some more."""
        if more:
            self.counts[what] = self.counts.get(what, 0) + more

    def pending(self) -> Iterable[int]:
        """Return the numbers of the rows that may go out later: none."""
        return ()


#: Where the holder of a key stands of which an earlier release has not kept the place.
_UNKNOWN = -(2**63)


class DistinctRules(Counting):
    """The keys of one bucket that are in flight, each with the place at which it passed.

    Counts: ``passed``, ``refused``, ``completed``, ``unknown`` for completions of keys that are not
    in flight, and ``stale`` for those that came before what is in flight.

    Parameters
    ----------
    ordered : bool
        Whether events have places, so that a completion frees only what came before it.
    """

    def __init__(self, *, ordered: bool = False) -> None:
        super().__init__()
        self._ordered = ordered
        self._distinct = Distinct("live")

    def apply(self, events: Iterable[Event]) -> list[Outgoing]:
        """Pass arrivals whose key is free; free the keys of completions."""
        answers = []
        for event in events:
            if event.kind == ARRIVAL and self._passes(event):
                answers.append(Outgoing(event.row, 0.0))
            elif event.kind == COMPLETION:
                self._complete(event)
        return answers

    def remembers_keys(self) -> bool:
        """Tell whether a key is in flight."""
        return bool(self._distinct.holders)

    def dump(self) -> dict[str, Any]:
        """Return the keys in flight."""
        live = [[key, holder.seq] for key, holder in self._distinct.holders.items()]
        return {"live": live, "counts": self.counts}

    def load(self, plain: Mapping[str, Any]) -> None:
        """Go on where plain data was written; in format 1 a key had no place."""
        self.counts = dict(plain["counts"])
        for entry in plain["live"]:
            key, at = (entry, _UNKNOWN) if isinstance(entry, str) else entry
            self._distinct.take(key, at, 0.0)

    def _passes(self, event: Event) -> bool:
        if self._distinct.holder(event.key, 0.0) is not None:
            self.count("refused")
            return False
        self._distinct.take(event.key, event.at, 0.0)
        self.count("passed")
        return True

    def _complete(self, event: Event) -> None:
        passed_at = self._distinct.holder(event.key, 0.0)
        if passed_at is None:
            self.count("unknown")
            return
        # At one place completions come first: this one is of an earlier run.
        if self._ordered and event.at <= passed_at:
            self.count("stale")
            return
        self._distinct.leave(event.key, passed_at, 0.0)
        self.count("completed")


_PRIORITY = 0


class FairRules(Counting):
    """The keys of one bucket whose last round is still to come, and the round that is served.

    Counts: ``tagged``; ``served`` for rows that moved the round on, and ``invalid`` for those
    without a round, by each bucket that they reach.

    Parameters
    ----------
    weights : mapping
        How many rows make up a key's part of a round; 1 where a key is not named.
    at_once : bool
        Whether the rounds that were given out in a batch have been served when the next one comes.
    """

    def __init__(self, weights: Mapping[str, float], *, at_once: bool) -> None:
        super().__init__()
        self._turns = Turns(weights, fair=True)
        self._turns.levels[_PRIORITY] = self._level = Level(_PRIORITY)
        self._at_once = at_once

    def apply(self, events: Iterable[Event]) -> list[Outgoing]:
        """Give each arrival its round."""
        accounts, account_of = self._level.accounts, self._turns.account
        answers, highest = [], 0.0
        for event in events:
            if event.kind == ARRIVAL:
                account = accounts.get(event.key) or account_of(_PRIORITY, event.key)
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

    def remembers_keys(self) -> bool:
        """Tell whether a key has a round that is still to come."""
        return bool(self.dump()["last"])

    def dump(self) -> dict[str, Any]:
        """Return the round that is served, and the last round of each key that is beyond it.

        Of the others nothing need be known: they go on from the round that is served.
        """
        turn = self._level.turn
        accounts = self._level.accounts.values()
        last = [[account.fair_key, account.last] for account in accounts if account.last > turn]
        return {"round": turn, "last": last, "counts": self.counts}

    def load(self, plain: Mapping[str, Any]) -> None:
        """Go on where plain data was written."""
        self.counts = dict(plain["counts"])
        self._level.advance(plain["round"], 0)
        for key, last in plain["last"]:
            account = self._turns.account(_PRIORITY, key)
            account.raw_last = account.raw(last)

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


@dataclass(slots=True)
class _Group:
    """The rows of a group: those that could start, and those that wait behind them."""

    live: dict[int, _Run] = field(default_factory=dict)
    """By its sequence, what the scheduler has."""
    tail: dict[int, int] = field(default_factory=dict)
    """The numbers of rows that wait behind, by their sequence, as they came."""

    # rule again: slots of a group, waiting head of a group
    def standing(self, on_failure: OnFailure) -> int:
        """Return how many items stand before the tail: with *skip*, no failed one that waits."""
        if on_failure == "block":
            return len(self.live)
        return sum(1 for run in self.live.values() if run.lease or not run.number)

    def plain(self) -> tuple[list[list[int]], list[list[int]]]:
        """Return the group as plain data."""
        live = [[order, r.seq, r.row, r.lease, r.number] for order, r in self.live.items()]
        return live, [list(waiting) for waiting in self.tail.items()]

    @classmethod
    def restore(cls, live: list[list[int]], tail: list[tuple[int, int]]) -> _Group:
        """Go on where plain data was written."""
        return cls({order: _Run(*run) for order, *run in live}, dict(tail))


class SerialRules(Counting):
    """The items of one bucket of groups that wait or run, in a scheduler.

    A row in no group goes out at once, and nothing is remembered of it.

    Counts: ``started``; ``duplicate`` for arrivals that wait or run already; ``ack``, ``nack``,
    ``release`` and ``dead`` by what completions said; ``buried`` for items whose last attempt or
    time-out was over; ``unknown`` for completions of items that do not run (second ones, those of
    nobody), ``stale`` for those of an earlier run.
    """

    def __init__(self, config: QueueConfig) -> None:
        super().__init__()
        self._config = config
        self._scheduler = Scheduler(config, keep_finished=False)
        self._groups: dict[str, _Group] = {}

    def apply(self, events: Iterable[Event]) -> list[Outgoing]:
        """Admit arrivals, settle completions, and start what may run after each instant."""
        answers: list[Outgoing] = []
        for now, at_once in groupby(events, key=attrgetter("at")):
            for event in at_once:
                if event.kind == ARRIVAL:
                    self._arrive(event, answers)
                elif event.kind == COMPLETION:
                    self._complete(event)
            self._start(now, answers)
        return answers

    def pending(self) -> Iterable[int]:
        """Return the numbers of the rows that wait or run: a run may be repeated."""
        for group in self._groups.values():
            for run in group.live.values():
                yield run.row
            yield from group.tail.values()

    def remembers_keys(self) -> bool:
        """Tell whether a row of a group waits or runs."""
        return bool(self._groups)

    def dump(self) -> dict[str, Any]:
        """Return the scheduler's snapshot, and the groups."""
        groups = [[name, *group.plain()] for name, group in self._groups.items()]
        return {"scheduler": self._scheduler.snapshot(), "groups": groups, "counts": self.counts}

    def load(self, plain: Mapping[str, Any]) -> None:
        """Go on where plain data was written."""
        self.counts = dict(plain["counts"])
        self._scheduler = Scheduler.restore(self._config, plain["scheduler"])
        self._groups = {name: _Group.restore(*group) for name, *group in plain["groups"]}

    def _arrive(self, event: Event, answers: list[Outgoing]) -> None:
        if event.key is None:
            self.count("started")
            answers.append(Outgoing(event.row, 1.0))
            return
        group = self._groups.get(event.key)
        if group is None:
            group = self._groups[event.key] = _Group()
        if event.seq in group.live or event.seq in group.tail:
            self.count("duplicate")
            return
        group.tail[event.seq] = event.row
        self._refill(event.key, group, event.at)

    def _refill(self, name: str, group: _Group, at: int) -> None:
        """Admit rows of a group while they could start: the others need not be looked at."""
        while group.tail and group.standing(self._config.on_failure) < self._config.group_limit:
            order = next(iter(group.tail))
            row = group.tail.pop(order)
            item = NewItem(payload=order, group_key=name)
            (admitted,) = self._scheduler.admit([item], at / _SECOND)
            group.live[order] = _Run(admitted.seq, row)

    def _complete(self, event: Event) -> None:
        said = "ack" if event.outcome is None else event.outcome
        group = None if event.key is None else self._groups.get(event.key)
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
            del self._groups[name]

    def _start(self, now: int, answers: list[Outgoing]) -> None:
        while True:
            grant = self._scheduler.claim(now / _SECOND, sys.maxsize)
            for item in grant.items:
                run = self._groups[cast("str", item.group_key)].live[cast("int", item.payload)]
                run.lease = grant.lease
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
        for name, group in list(self._groups.items()):
            gone = [order for order, run in group.live.items() if run.seq in dead]
            for order in gone:
                del group.live[order]
            if gone:
                self._after(name, group, at)
