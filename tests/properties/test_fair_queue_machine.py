"""The fair queue against snapshot rounds played by hand, in random use of every kind."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spark_queue.errors import InvalidArgumentError, QueueFullError, QueueShutDownError
from spark_queue.memory.fair import FairQueue
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.waiting.tickets.stage import FakeTicket, line_of, outcome_of

KEYS = st.sampled_from("aaabbcd")
TIMEOUTS = st.sampled_from([None, None, 1, 3])


@dataclass
class NaiveRounds:
    """The rule as it is told: deliver a snapshot of all heads, and then take the next one."""

    selected: list[str] = field(default_factory=list)
    queued: dict[str, list[str]] = field(default_factory=dict)
    arrivals: dict[str, int] = field(default_factory=dict)
    back: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.selected) + sum(map(len, self.queued.values()))

    def put(self, item: str) -> None:
        """Add at the end of the key."""
        self.queued.setdefault(item[0], []).append(item)

    def pop(self) -> str:
        """Deliver the first of the snapshot, which is taken anew when it is used up."""
        if not self.selected:
            heads = [line.pop(0) for line in self.queued.values()]
            self.selected = sorted(heads, key=lambda item: self.arrivals[item])
            self.queued = {key: line for key, line in self.queued.items() if line}
        item = self.selected.pop(0)
        self.back.discard(item)
        return item

    def restore(self, item: str) -> None:
        """Put back to the front, behind older ones that came back."""
        older = [one for one in self.selected if one in self.back]
        place = sum(self.arrivals[one] < self.arrivals[item] for one in older)
        self.selected.insert(place, item)
        self.back.add(item)


class FairQueueMachine(RuleBasedStateMachine):
    """Does the same to a queue and to lists, and compares what both answer and hold."""

    @initialize(limit=st.sampled_from([None, 1, 2, 3, 5]))
    def start(self, limit: int | None) -> None:
        """Begin with an empty queue."""
        self.timer = ManualTimer()
        self.queue: FairQueue[str] = FairQueue(lambda item: item[0], limit, timer=self.timer)
        self.limit = math.inf if limit is None else limit
        self.rounds = NaiveRounds()
        self.takers: list[tuple[FakeTicket, float]] = []
        self.producers: list[tuple[FakeTicket, float]] = []
        self.handed: dict[FakeTicket, str] = {}
        self.let_in: list[FakeTicket] = []
        self.made = self.put_count = self.done = 0
        self.closed = self.dropped = False

    def _item(self, key: str) -> str:
        self.made += 1
        return f"{key}{self.made}"

    def _until(self, timeout: float | None) -> float:
        return math.inf if timeout is None else self.timer.now() + timeout

    def _has_slot(self) -> bool:
        return len(self.rounds) + len(self.let_in) < self.limit

    def _accept(self, item: str) -> None:
        self.put_count += 1
        self.rounds.arrivals[item] = self.put_count
        if self.takers:
            self.handed[self.takers.pop(0)[0]] = item
        else:
            self.rounds.put(item)

    def _admit(self) -> None:
        while self.producers and self._has_slot():
            self.let_in.append(self.producers.pop(0)[0])

    @rule(key=KEYS)
    def put(self, key: str) -> None:
        """Put without waiting."""
        item = self._item(key)
        outcome = outcome_of(lambda: self.queue.put_nowait(item))
        if self.closed:
            assert isinstance(outcome, QueueShutDownError)
        elif not self._has_slot():
            assert isinstance(outcome, QueueFullError)
            assert (outcome.item, outcome.size) == (item, len(self.rounds))
        else:
            assert outcome is self.queue
            self._accept(item)

    @precondition(lambda self: not self.closed)
    @rule()
    def put_what_has_no_key(self) -> None:
        """Put something whose key function fails, which changes nothing."""
        outcome = outcome_of(lambda: self.queue.put_nowait(""))
        assert isinstance(outcome, IndexError if self._has_slot() else QueueFullError)

    @rule()
    def get(self) -> None:
        """Take without waiting."""
        outcome = outcome_of(self.queue.get_nowait)
        if len(self.rounds):
            assert outcome == self.rounds.pop()
            self._admit()
        else:
            assert isinstance(outcome, QueueShutDownError if self.closed else Empty)

    @precondition(lambda self: not self.closed and not len(self.rounds))
    @rule(timeout=TIMEOUTS)
    def wait_for_an_item(self, timeout: float | None) -> None:
        """Join the line of takers."""
        ticket = FakeTicket(line_of(self.queue, "takers"))
        self.queue._state.ask_item(ticket, timeout)
        self.takers.append((ticket, self._until(timeout)))

    @precondition(lambda self: not self.closed and not self._has_slot() and self.limit > 0)
    @rule(key=KEYS, timeout=TIMEOUTS)
    def wait_for_a_slot(self, key: str, timeout: float | None) -> None:
        """Join the line of producers."""
        ticket = FakeTicket(line_of(self.queue, "producers"), self._item(key))
        self.queue._state.ask_slot(ticket, timeout)
        self.producers.append((ticket, self._until(timeout)))

    @precondition(lambda self: self.let_in)
    @rule(data=st.data())
    def use_a_slot(self, data: st.DataObject) -> None:
        """Let a producer who was let in put, in any order of waking up."""
        ticket = data.draw(st.sampled_from(self.let_in))
        self.let_in.remove(ticket)
        with suppress(QueueShutDownError), ticket:
            self.queue._state.fill_slot(ticket)
            assert not self.closed
            self._accept(ticket.wants)
            self._admit()

    @precondition(lambda self: self.handed)
    @rule(data=st.data())
    def use_an_item(self, data: st.DataObject) -> None:
        """Let a taker who was given an item wake up."""
        ticket = data.draw(st.sampled_from(list(self.handed)))
        with ticket:
            assert ticket.value[2] == self.handed.pop(ticket)

    @precondition(lambda self: self.handed or self.let_in or self.takers or self.producers)
    @rule(data=st.data())
    def interrupt(self, data: st.DataObject) -> None:
        """Interrupt somebody who waits, or was just given what they waited for."""
        waiting = [ticket for ticket, _ in (*self.takers, *self.producers)]
        ticket = data.draw(st.sampled_from([*self.handed, *self.let_in, *waiting]))
        ticket.__exit__(KeyboardInterrupt, None, None)
        self.takers = [entry for entry in self.takers if entry[0] is not ticket]
        self.producers = [entry for entry in self.producers if entry[0] is not ticket]
        if ticket in self.let_in:
            self.let_in.remove(ticket)
            if not self.closed:
                self._admit()
        if ticket in self.handed:
            self._take_back(self.handed.pop(ticket))

    def _take_back(self, item: str) -> None:
        if self.takers:
            self.handed[self.takers.pop(0)[0]] = item
        elif self.dropped:
            self.done = min(self.put_count, self.done + 1)
        else:
            self.rounds.restore(item)

    @rule(seconds=st.integers(1, 2))
    def advance(self, seconds: int) -> None:
        """Let time pass."""
        self.timer.advance(seconds)
        now = self.timer.now()
        for line in (self.takers, self.producers):
            assert all(ticket.settled is (until <= now) for ticket, until in line)
            assert all(isinstance(t.error, Empty | QueueFullError) for t, u in line if u <= now)
            line[:] = [entry for entry in line if entry[1] > now]

    @rule()
    def task_done(self) -> None:
        """Say that an item is done."""
        outcome = outcome_of(self.queue.task_done)
        assert isinstance(outcome, InvalidArgumentError) is (self.done == self.put_count)
        self.done += outcome is None

    @precondition(lambda self: not self.closed)
    @rule(limit=st.sampled_from([None, 0, 1, 2, 4]))
    def change_the_limit(self, limit: int | None) -> None:
        """Make the queue larger or smaller."""
        self.queue.limit = limit
        self.limit = math.inf if limit is None else limit
        self._admit()

    @precondition(lambda self: self.made > 8)
    @rule(immediate=st.booleans())
    def shut_down(self, immediate: bool) -> None:  # noqa: FBT001
        """Refuse everything from now on."""
        self.queue.shutdown(immediate)
        self.closed = True
        if immediate and not self.dropped:
            self.dropped = True
            self.done = min(self.put_count, self.done + len(self.rounds))
            self.rounds = NaiveRounds(arrivals=self.rounds.arrivals)
        for ticket, _ in (*self.takers, *self.producers):
            assert isinstance(ticket.error, QueueShutDownError)
        self.takers, self.producers = [], []

    @invariant()
    def holds_the_same(self) -> None:
        """Both hold the same, in the same order, and nobody waits for what is there."""
        snapshot = self.queue.snapshot()
        assert list(snapshot.selected) == self.rounds.selected
        queued = {key: list(items) for key, items in snapshot.queued.items()}
        assert queued == self.rounds.queued
        assert len(self.queue) == len(self.rounds)
        assert self.queue.unfinished_tasks == self.put_count - self.done
        assert not (self.takers and len(self.rounds))
        assert not (self.producers and self._has_slot() and not self.closed)

    @invariant()
    def serves_in_turn(self) -> None:
        """Who is served was first in line, and was told once; everybody else waits."""
        state = self.queue._state
        assert [ticket for ticket, _ in self.takers] == list(state.takers.tickets)
        assert [ticket for ticket, _ in self.producers] == list(state.producers.tickets)
        assert all(ticket.rung == 1 for ticket in (*self.handed, *self.let_in))
        assert not any(ticket.rung for ticket, _ in (*self.takers, *self.producers))

    @invariant()
    def forgets_keys(self) -> None:
        """Only keys with items leave a trace."""
        keys = {item[0] for item in self.rounds.selected} | set(self.rounds.queued)
        assert set(self.queue._state.rounds._last) <= keys


TestFairQueueMachine = FairQueueMachine.TestCase
TestFairQueueMachine.settings = settings(stateful_step_count=50, database=None)
