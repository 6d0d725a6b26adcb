"""Rules of the serial operator on streams, over events of a bucket."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, cast

from spark_queue.config import OnFailure, QueueConfig
from spark_queue.rules.rule_model import Ack, Dead, Nack, NewItem, Outcome, Release
from spark_queue.rules.scheduler import Scheduler
from spark_queue.streaming.stream_pages import NEAR, PAGE, GroupTail
from spark_queue.streaming.stream_rules import (
    ARRIVAL,
    COMPLETION,
    BucketRules,
    Event,
    Outgoing,
)

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
    """The rows of a group: rows that could start, and their tail."""

    tail: GroupTail
    """Those that wait behind, as they came."""
    live: dict[int, _Run] = field(default_factory=dict)
    """By its sequence, what the scheduler has."""

    # rule again: slots of a group, waiting head of a group
    def standing(self, on_failure: OnFailure) -> int:
        """Count the rows before the tail; *skip* leaves out waiting failures."""
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
        known = [run.seq, item.raw_tag, item.attempts, item.losses, run.lease, until]
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
            # Dead rows make room for rows that were not admitted yet.
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
