"""The distinct queue against a list of elements, in random use of every kind."""

from __future__ import annotations

import math
from dataclasses import dataclass
from queue import Empty
from typing import Any, Literal

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spark_queue.errors import InvalidArgumentError, QueueShutDownError
from spark_queue.memory.distinct import Batch, DistinctQueue, Element, Take
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.waiting.tickets.stage import FakeTicket, line_of, outcome_of

ITEMS = st.integers(0, 9)
COUNTS = st.sampled_from([1, 1, 2, 3, 5])


@dataclass
class Thing:
    """An element as the list has it: in its place for as long as it is here."""

    item: int
    added_at: float
    holder: Batch[int] | None = None
    taken_at: float = 0.0
    busy: float = 0.0
    collisions: int = 0
    failures: int = 0

    def give_back(self, now: float, *, failed: bool) -> None:
        """Let it wait again, where it stands."""
        self.holder = None
        self.busy += now - self.taken_at
        self.failures += failed

    def element(self, now: float) -> Element[int]:
        """Tell what is known of it."""
        busy = self.busy + (now - self.taken_at if self.holder is not None else 0)
        return Element(
            item=self.item,
            status="queued" if self.holder is None else "in_progress",
            queued_seconds=now - self.added_at - busy,
            in_progress_seconds=busy,
            collisions=self.collisions,
            failures=self.failures,
        )


class DistinctQueueMachine(RuleBasedStateMachine):
    """Does the same to a queue and to a list, and compares what both answer and hold."""

    @initialize()
    def start(self) -> None:
        """Begin with an empty queue."""
        self.timer = ManualTimer()
        self.queue: DistinctQueue[int] = DistinctQueue(timer=self.timer)
        self.things: list[Thing] = []
        self.open: list[Batch[int]] = []
        self.waiting: list[tuple[FakeTicket, float]] = []
        self.served: list[FakeTicket] = []
        self.closed = False

    def _queued(self) -> list[Thing]:
        return [thing for thing in self.things if thing.holder is None]

    def _held(self, take: Batch[int]) -> list[Thing]:
        return [thing for thing in self.things if thing.holder is take]

    def _add(self, item: int) -> bool:
        for thing in self.things:
            if thing.item == item:
                thing.collisions += 1
                return False
        self.things.append(Thing(item, self.timer.now()))
        return True

    def _lend(self, take: Batch[int], count: int) -> list[int]:
        lent = self._queued()[:count]
        for thing in lent:
            thing.holder, thing.taken_at = take, self.timer.now()
        return [thing.item for thing in lent]

    def _serve(self) -> None:
        while self.waiting and self._queued():
            ticket, _ = self.waiting.pop(0)
            self.served.append(ticket)
            take = ticket.wants
            assert ticket.value is take
            assert take == self._lend(take, len(take))

    @rule(item=ITEMS)
    def add(self, item: int) -> None:
        """Add one element."""
        outcome = outcome_of(lambda: self.queue.add(item))
        if self.closed:
            assert isinstance(outcome, QueueShutDownError)
        else:
            assert outcome is self._add(item)
            self._serve()

    @rule(items=st.lists(ITEMS, max_size=6))
    def add_all(self, items: list[int]) -> None:
        """Add elements in bulk."""
        outcome = outcome_of(lambda: self.queue.add_all(items))
        if self.closed:
            assert isinstance(outcome, QueueShutDownError)
        else:
            assert outcome == [item for item in items if not self._add(item)]
            self._serve()

    @rule(count=COUNTS)
    def take(self, count: int) -> None:
        """Take what is there."""
        take = self.queue.take(count, timeout=0)
        outcome = outcome_of(take.__enter__)
        if self._queued():
            assert outcome is take
            assert take == self._lend(take, count)
            self.open.append(take)
        else:
            assert isinstance(outcome, QueueShutDownError if self.closed else Empty)

    @precondition(lambda self: not self.closed and not self._queued())
    @rule(count=COUNTS, timeout=st.sampled_from([None, None, 1, 3]))
    def wait(self, count: int, timeout: float | None) -> None:
        """Join the line of takers."""
        ticket = FakeTicket(line_of(self.queue, "takers"), self.queue.take(count))
        self.queue._state.ask(ticket, timeout)
        until = math.inf if timeout is None else self.timer.now() + timeout
        self.waiting.append((ticket, until))

    @precondition(lambda self: self.served)
    @rule(data=st.data())
    def wake_up(self, data: st.DataObject) -> None:
        """Let a taker who was served go on to its scope."""
        ticket = data.draw(st.sampled_from(self.served))
        self.served.remove(ticket)
        with ticket:
            self.open.append(ticket.wants)

    @precondition(lambda self: self.served or self.waiting)
    @rule(data=st.data())
    def interrupt(self, data: st.DataObject) -> None:
        """Interrupt somebody who waits, or was just served."""
        waiting = [ticket for ticket, _ in self.waiting]
        ticket = data.draw(st.sampled_from([*self.served, *waiting]))
        ticket.__exit__(KeyboardInterrupt, None, None)
        self.waiting = [entry for entry in self.waiting if entry[0] is not ticket]
        if ticket in self.served:
            self.served.remove(ticket)
            self._give_back(ticket.wants, failed=False)

    def _give_back(self, take: Batch[int], *, failed: bool) -> None:
        for thing in self._held(take):
            thing.give_back(self.timer.now(), failed=failed)
        self._serve()

    @precondition(lambda self: self.open)
    @rule(data=st.data(), kind=st.sampled_from([None, None, ValueError, KeyboardInterrupt]))
    def end(self, data: st.DataObject, kind: type[BaseException] | None) -> None:
        """End any scope: well, by an error, or by an interrupt."""
        take = data.draw(st.sampled_from(range(len(self.open))).map(self.open.pop))
        if isinstance(take, Take):
            take.__exit__(kind, None, None)
        if kind is None:
            self.things = [thing for thing in self.things if thing.holder is not take]
        else:
            self._give_back(take, failed=kind is ValueError)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), item=ITEMS, outcome=st.sampled_from(["ack", "nack", "release"]))
    def settle(
        self, data: st.DataObject, item: int, outcome: Literal["ack", "nack", "release"]
    ) -> None:
        """Say what becomes of one element, which the take may hold or not."""
        take = self.open[data.draw(st.integers(0, len(self.open) - 1))]
        things = [thing for thing in self._held(take) if thing.item == item]
        result = outcome_of(lambda: getattr(take, outcome)(item))
        assert isinstance(result, InvalidArgumentError) is (not things)
        for thing in things:
            if outcome == "ack":
                self.things.remove(thing)
            else:
                thing.give_back(self.timer.now(), failed=outcome == "nack")
                self._serve()

    @rule(seconds=st.integers(1, 2))
    def advance(self, seconds: int) -> None:
        """Let time pass."""
        self.timer.advance(seconds)
        now = self.timer.now()
        for ticket, until in self.waiting:
            assert ticket.settled is (until <= now)
            if ticket.settled:
                ticket.__exit__(Empty, None, None)
        self.waiting = [entry for entry in self.waiting if entry[1] > now]

    @precondition(lambda self: len(self.things) > 5)
    @rule()
    def shut_down(self) -> None:
        """Refuse elements from now on."""
        self.queue.shutdown()
        self.closed = True
        for ticket, _ in self.waiting:
            assert isinstance(ticket.error, QueueShutDownError)
            ticket.__exit__(QueueShutDownError, None, None)
        self.waiting = []

    @invariant()
    def holds_the_same(self) -> None:
        """Both hold the same elements in the same order, and know the same of each."""
        now = self.timer.now()
        elements = [thing.element(now) for thing in self.things]
        snapshot: Any = self.queue.snapshot()
        assert list(snapshot.queued) == [one for one in elements if one.status == "queued"]
        assert list(snapshot.in_progress) == [one for one in elements if one.status != "queued"]
        assert self.queue.queued == [thing.item for thing in self._queued()]
        assert len(self.queue) == len(self.things)
        assert all(self.queue.facts(element.item) == element for element in elements)

    @invariant()
    def serves_in_turn(self) -> None:
        """Nobody waits while something is queued, and who is served was first in line."""
        assert not (self.waiting and self._queued())
        assert [ticket for ticket, _ in self.waiting] == list(self.queue._state.takers.tickets)
        assert all(ticket.rung == 1 for ticket in self.served)
        assert len(self.timer) <= len(self.waiting) + len(self.served)

    def teardown(self) -> None:
        """Whatever happened, all that is here can be taken, each element once, in its order."""
        if not hasattr(self, "queue"):
            return
        for take in [*self.open, *(ticket.wants for ticket in self.served)]:
            self.queue._state.take_back(take)
        expected = [thing.item for thing in self.things]
        if not self.waiting and expected:
            with self.queue.take(99) as items:
                assert items == expected
            assert len(self.queue) == 0


TestDistinctQueueMachine = DistinctQueueMachine.TestCase
TestDistinctQueueMachine.settings = settings(stateful_step_count=50, database=None)
