"""Random use of the scheduler against a list that is searched from its start."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spark_queue.memory.broker.turn_scheduler import TaskOrder, TaskScheduler

GROUPS = st.sampled_from([None, None, "", "a", "b", 1, 1.0])
Entry = tuple[int, object, float]


class SchedulerModel(RuleBasedStateMachine):
    """A naive model: the waiting tasks in the order of their arrival, and the active ones."""

    @initialize(order=st.sampled_from(["arrival", "ungrouped_first", "least_congested"]))
    def start(self, order: TaskOrder) -> None:
        """Begin with nothing."""
        self.scheduler: TaskScheduler[int] = TaskScheduler(order)
        self.order = order
        self.waiting: list[Entry] = []
        self.active: dict[int, object] = {}
        self.made = 0
        self.now = 0

    @rule(group=GROUPS, patience=st.none() | st.integers(1, 9))
    def enqueue(self, group: object, patience: int | None) -> None:
        """Add a task."""
        self.made += 1
        deadline = None if patience is None else self.now + patience
        assert self.scheduler.enqueue(self.made, group, deadline)
        until = float("inf") if deadline is None else deadline
        self.waiting.append((self.made, group, until))

    def _rank(self, entry: Entry) -> int:
        if self.order == "least_congested":
            same = sum(other[1] == entry[1] for other in self.waiting)
            return 1 if entry[1] is None else same
        return -1 if self.order == "ungrouped_first" and entry[1] is None else 0

    @rule()
    def take_next(self) -> None:
        """Start the earliest task whose group is not active."""
        busy = [group for group in self.active.values() if group is not None]
        heads: list[Entry] = []
        for entry in self.waiting:
            taken = [*busy, *(head[1] for head in heads if head[1] is not None)]
            if entry[1] is None or entry[1] not in taken:
                heads.append(entry)
        chosen = min(heads, key=self._rank, default=None)
        assert self.scheduler.take_next() == (None if chosen is None else chosen[0])
        if chosen is not None:
            self.waiting.remove(chosen)
            self.active[chosen[0]] = chosen[1]

    @precondition(lambda self: bool(self.active))
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        """End any active task."""
        task = data.draw(st.sampled_from(sorted(self.active)))
        assert self.scheduler.complete(task)
        del self.active[task]

    @precondition(lambda self: bool(self.waiting))
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        """Take out any waiting task."""
        entry = data.draw(st.sampled_from(self.waiting))
        assert self.scheduler.remove(entry[0])
        self.waiting.remove(entry)

    @rule(seconds=st.integers(1, 5))
    def expire(self, seconds: int) -> None:
        """Let time pass."""
        self.now += seconds
        due = sorted((e for e in self.waiting if e[2] <= self.now), key=lambda e: (e[2], e[0]))
        assert self.scheduler.expire(self.now) == [entry[0] for entry in due]
        self.waiting = [entry for entry in self.waiting if entry[2] > self.now]

    @rule()
    def clear(self) -> None:
        """Take everything out that waits."""
        assert self.scheduler.clear() == [entry[0] for entry in self.waiting]
        self.waiting = []

    @rule()
    def nothing_is_there_that_is_not(self) -> None:
        """Ask for what is not there."""
        assert not self.scheduler.complete(-1)
        assert not self.scheduler.remove(-1)

    @invariant()
    def agrees(self) -> None:
        """Compare counts and the next deadline; no group is kept without a task."""
        assert len(self.scheduler) == len(self.waiting)
        assert sorted(self.scheduler.active) == sorted(self.active)
        deadlines = [entry[2] for entry in self.waiting if entry[2] != float("inf")]
        assert self.scheduler.next_expiration() == min(deadlines, default=None)
        groups = {e[1] for e in self.waiting} | set(self.active.values())
        assert self.scheduler.group_count == len(groups - {None})


TestSchedulerModel = SchedulerModel.TestCase
TestSchedulerModel.settings = settings(stateful_step_count=50, database=None)
