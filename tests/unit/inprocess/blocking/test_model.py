"""Random use of a blocking queue against a list, a list of waiters and a clock."""

from __future__ import annotations

from concurrent.futures import Future
from queue import Empty

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spark_queue.memory.blocking import BlockingQueue
from spark_queue.memory.waiting.timer import ManualTimer
from spark_queue.reader_config import FullPolicy


class BlockingQueueModel(RuleBasedStateMachine):
    """A naive model: items, the waits that are open, and what each ended one must have got."""

    @initialize(
        limit=st.none() | st.integers(1, 4), policy=st.sampled_from(["refuse", "drop_oldest"])
    )
    def start(self, limit: int | None, policy: FullPolicy) -> None:
        """Begin with an empty queue."""
        self.timer = ManualTimer()
        self.line: BlockingQueue[int] = BlockingQueue(limit, policy, timer=self.timer)
        self.limit, self.policy = limit, policy
        self.items: list[int] = []
        self.waiting: list[tuple[Future[int], float]] = []
        self.expected: list[tuple[Future[int], int | None]] = []
        self.made = 0
        self.dropped = 0

    def _item(self) -> int:
        self.made += 1
        return self.made

    def _serve(self, item: int) -> bool:
        if self.waiting:
            self.expected.append((self.waiting.pop(0)[0], item))
            return True
        return False

    @rule()
    def put(self) -> None:
        """Put at the end."""
        item = self._item()
        accepted = self.line.put(item)
        full = self.limit is not None and len(self.items) >= self.limit
        if self._serve(item):
            assert accepted
        elif full and self.policy == "refuse":
            assert not accepted
        else:
            assert accepted
            while self.limit is not None and len(self.items) >= self.limit:
                self.items.pop(0)
                self.dropped += 1
            self.items.append(item)

    @rule()
    def put_head(self) -> None:
        """Put at the head."""
        item = self._item()
        self.line.put_head(item)
        if not self._serve(item):
            self.items.insert(0, item)

    @rule(timeout=st.none() | st.integers(0, 5))
    def get(self, timeout: int | None) -> None:
        """Take, and wait where there is nothing."""
        future = self.line.get_future(timeout)
        if self.items:
            self.expected.append((future, self.items.pop(0)))
        elif timeout == 0:
            self.expected.append((future, None))
        else:
            until = float("inf") if timeout is None else self.timer.now() + timeout
            self.waiting.append((future, until))

    @rule(parity=st.integers(0, 1))
    def poll_if(self, parity: int) -> None:
        """Take the head if it is even or odd."""
        want = self.items and self.items[0] % 2 == parity
        try:
            item = self.line.poll_if(lambda head: head % 2 == parity)
        except Empty:
            assert not want
        else:
            assert want
            assert item == self.items.pop(0)

    @rule(seconds=st.integers(1, 4))
    def advance(self, seconds: int) -> None:
        """Let time pass."""
        self.timer.advance(seconds)
        now = self.timer.now()
        self.expected += [(future, None) for future, until in self.waiting if until <= now]
        self.waiting = [entry for entry in self.waiting if entry[1] > now]

    @precondition(lambda self: bool(self.waiting))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """Cancel any wait."""
        index = data.draw(st.integers(0, len(self.waiting) - 1))
        future, _ = self.waiting.pop(index)
        assert future.cancel()

    @rule()
    def evict(self) -> None:
        """End every wait."""
        assert self.line.evict_waiters() == len(self.waiting)
        self.expected += [(future, None) for future, _ in self.waiting]
        self.waiting = []

    @rule()
    def flush(self) -> None:
        """Drop what is queued."""
        assert self.line.flush() == len(self.items)
        self.items = []

    @invariant()
    def agrees(self) -> None:
        """Sizes agree, every ended wait got what it should, and every open one is open."""
        assert self.line.size() == len(self.items)
        assert self.line.waiter_count == len(self.waiting)
        assert self.line.dropped == self.dropped
        assert not (self.items and self.waiting)
        assert len(self.timer) == sum(until != float("inf") for _, until in self.waiting)
        assert not any(future.done() for future, _ in self.waiting)
        for future, item in self.expected:
            if item is None:
                assert isinstance(future.exception(timeout=0), Empty)
            else:
                assert future.result(timeout=0) == item
        self.expected = []


TestBlockingQueueModel = BlockingQueueModel.TestCase
TestBlockingQueueModel.settings = settings(stateful_step_count=40, database=None)
