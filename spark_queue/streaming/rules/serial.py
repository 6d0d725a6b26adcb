"""The rule of a serial stream: the next item of a group goes out when the one before is over."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, cast

from spark_queue.config import QueueConfig
from spark_queue.core.scheduler import (
    Ack,
    Dead,
    Nack,
    NewItem,
    Outcome,
    Release,
    Scheduler,
)
from spark_queue.streaming.rules.events import ARRIVAL, COMPLETION, Answer, Counting, Event

_OUTCOMES: Mapping[str, Outcome] = {
    "ack": Ack(),
    "nack": Nack(),
    "release": Release(),
    "dead": Dead(),
}

_SECOND = 1_000_000


class _Run:
    """An item that waits or runs."""

    __slots__ = ("lease", "number", "seq")

    def __init__(self, seq: int, lease: int = 0, number: int = 0) -> None:
        self.seq = seq
        """The scheduler's number of the item."""
        self.lease = lease
        """Under which it runs; 0 while it waits."""
        self.number = number
        """How often it was started."""


class SerialRules(Counting):
    """The items of one bucket of groups that wait or run, in a scheduler.

    A row in no group goes out at once, and nothing is remembered of it.

    Counts: ``started``; ``duplicate`` for arrivals that wait or run already; ``ack``, ``nack``,
    ``release`` and ``dead`` by what completions said; ``buried`` for items whose last attempt or
    time-out was over; ``unknown`` for completions of items that do not run (second ones, those of
    nobody), ``stale`` for those of an earlier run, ``invalid`` for outcomes that are none.
    """

    def __init__(self, config: QueueConfig) -> None:
        super().__init__()
        self._config = config
        self._scheduler = Scheduler(config, keep_finished=False)
        self._live: dict[tuple[str | None, int], _Run] = {}

    def apply(self, events: Iterable[Event]) -> list[Answer]:
        """Admit arrivals, settle completions, and start what may run after each instant."""
        answers: list[Answer] = []
        now: int | None = None
        for event in events:
            if now is not None and event.at != now:
                self._start(now, answers)
            now = event.at
            if event.kind == ARRIVAL:
                self._admit(event, answers)
            elif event.kind == COMPLETION:
                self._complete(event)
        if now is not None:
            self._start(now, answers)
        return answers

    def dump(self) -> dict[str, Any]:
        """Return the scheduler's snapshot, and which items were started."""
        runs = [[*item, r.seq, r.lease, r.number] for item, r in self._live.items() if r.number]
        return {"scheduler": self._scheduler.snapshot(), "runs": runs, "counts": self.counts}

    def load(self, plain: Mapping[str, Any]) -> None:
        """Go on where plain data was written."""
        self.counts = dict(plain["counts"])
        self._scheduler = Scheduler.restore(self._config, plain["scheduler"])
        for item in plain["scheduler"]["items"]:
            new = item["new"]
            self._live[new["group_key"], new["payload"][0]] = _Run(item["seq"])
        for group, order, *run in plain["runs"]:
            self._live[group, order] = _Run(*run)

    def _admit(self, event: Event, answers: list[Answer]) -> None:
        if event.key is None:
            self.count("started")
            answers.append(Answer(event.payload, 1.0))
            return
        if (event.key, event.seq) in self._live:
            self.count("duplicate")
            return
        item = NewItem(payload=[event.seq, event.payload], group_key=event.key)
        (admitted,) = self._scheduler.admit([item], event.at / _SECOND)
        self._live[event.key, event.seq] = _Run(admitted.seq)

    def _complete(self, event: Event) -> None:
        said = event.outcome or "ack"
        outcome = _OUTCOMES.get(said)
        if outcome is None:
            self.count("invalid")
            return
        run = self._live.get((event.key, event.seq))
        if run is None or not run.lease:
            self.count("unknown")
            return
        if event.number and event.number != run.number:
            self.count("stale")
            return
        self._scheduler.settle(run.lease, {run.seq: outcome}, event.at / _SECOND)
        run.lease = 0
        self.count(said)
        if self._scheduler.state(run.seq) is None:
            del self._live[event.key, event.seq]
            if said == "nack":
                self.count("buried")

    def _start(self, now: int, answers: list[Answer]) -> None:
        grant = self._scheduler.claim(now / _SECOND, sys.maxsize)
        self._bury(set(grant.dead))
        for item in grant.items:
            order, payload = cast("tuple[int, str]", item.payload)
            run = self._live[cast("str", item.group_key), order]
            run.lease = grant.lease
            run.number += 1
            self.count("started")
            answers.append(Answer(payload, float(run.number)))

    def _bury(self, dead: set[int]) -> None:
        """Forget items that timed out too often."""
        if not dead:
            return
        for item in [item for item, run in self._live.items() if run.seq in dead]:
            del self._live[item]
            self.count("buried")
