"""The singular update queue against a list and a number, in random use of every kind."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spark_queue.errors import QueueFullError, QueueShutDownError
from spark_queue.memory.singular import SingularUpdateQueue

#: What a request adds to the account; the handler refuses what would make it negative.
AMOUNTS = st.integers(-30, 30)

#: Longer than anything here takes.
_SOON = 10


@dataclass
class NaiveAccount:
    """The rule as it is told: one after another, each seeing what the ones before it left."""

    balance: int = 0
    waiting: list[tuple[int, Future[int]]] = field(default_factory=list)

    def apply(self, amount: int) -> int | None:
        """Return the new balance, or nothing where the request is refused."""
        if self.balance + amount < 0:
            return None
        self.balance += amount
        return self.balance


class SingularQueueMachine(RuleBasedStateMachine):
    """Does the same to a queue and to a list; the handler takes a request when it is let."""

    @initialize(capacity=st.sampled_from([1, 2, 4, None]))
    def start(self, capacity: int | None) -> None:
        """Begin with an empty account and a handler that stands before its gate."""
        self.capacity = capacity
        self.model = NaiveAccount()
        self.balance = 0
        self.entered, self.opened = threading.Semaphore(0), threading.Semaphore(0)
        self.in_hand = 0
        self.closed = False
        self.queue: SingularUpdateQueue[int, int] = SingularUpdateQueue(self._handle, capacity)
        self.queue.start()

    def _handle(self, amount: int) -> int:
        self.entered.release()
        assert self.opened.acquire(timeout=_SOON)
        if self.balance + amount < 0:
            raise ValueError("not enough")
        self.balance += amount
        return self.balance

    def _takes_one(self) -> None:
        """Wait until the handler has the first request, so that what is queued is known.

        A cancelled request keeps its slot until the handler comes to it, as in an executor.
        """
        while not self.in_hand and self.model.waiting and self.model.waiting[0][1].cancelled():
            self.model.waiting.pop(0)
        if not self.in_hand and self.model.waiting:
            assert self.entered.acquire(timeout=_SOON)
            self.in_hand = 1

    def _queued(self) -> int:
        return len(self.model.waiting) - self.in_hand

    @rule(amount=AMOUNTS)
    def submit(self, amount: int) -> None:
        """A request is queued while there is a slot, and refused without one, or when closed."""
        if self.closed:
            with pytest.raises(QueueShutDownError):
                self.queue.submit_nowait(amount)
            return
        if self.capacity is not None and self._queued() >= self.capacity:
            with pytest.raises(QueueFullError):
                self.queue.submit_nowait(amount)
            return
        self.model.waiting.append((amount, self.queue.submit_nowait(amount)))
        self._takes_one()

    @precondition(lambda self: self.in_hand)
    @rule()
    def handle(self) -> None:
        """The oldest request is handled, and its future has the reply or the refusal."""
        amount, future = self.model.waiting.pop(0)
        self.in_hand = 0
        self.opened.release()
        expected = self.model.apply(amount)
        if expected is None:
            assert isinstance(future.exception(timeout=_SOON), ValueError)
        else:
            assert future.result(timeout=_SOON) == expected
        self._takes_one()

    @precondition(lambda self: self._queued() > 0)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """A request that waits can be cancelled, and is not handled."""
        place = data.draw(st.integers(self.in_hand, len(self.model.waiting) - 1))
        assert self.model.waiting[place][1].cancel()

    @precondition(lambda self: not self.closed)
    @rule(drain=st.booleans())
    def shut_down(self, drain: bool) -> None:  # noqa: FBT001 - drawn
        """After a shutdown nothing is taken; what waits is handled, or fails, as was asked."""
        self.queue.shutdown(drain=drain, wait=False)
        self.closed = True
        with pytest.raises(QueueShutDownError):
            self.queue.submit_nowait(1)
        if not drain:
            kept, dropped = self.model.waiting[: self.in_hand], self.model.waiting[self.in_hand :]
            self.model.waiting = kept
            for _, future in dropped:
                if future.cancelled():
                    continue
                assert isinstance(future.exception(timeout=_SOON), QueueShutDownError)

    @invariant()
    def counts_agree(self) -> None:
        """As many requests wait as were queued and not taken, and the balance is the model's."""
        if hasattr(self, "queue"):
            deadline = time.monotonic() + _SOON
            while self.queue.task_count != self._queued() and time.monotonic() < deadline:
                time.sleep(0.0005)  # the handler is passing over cancelled requests
            assert self.queue.task_count == self._queued()
            assert self.balance == self.model.balance

    def teardown(self) -> None:
        """Let everything through, and see that no future is left behind."""
        if not hasattr(self, "queue"):
            return
        self.opened.release(len(self.model.waiting) + 1)
        self.queue.shutdown(drain=True, wait=True)
        for amount, future in self.model.waiting:
            if future.cancelled():
                continue
            expected = self.model.apply(amount)
            error = future.exception(timeout=_SOON)
            assert (error is not None) == (expected is None)


TestSingularQueue = SingularQueueMachine.TestCase
TestSingularQueue.settings = settings(stateful_step_count=30)
