"""Scheduler of a broker: the next to start is the earliest task whose group is not active."""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Literal, TypeVar, get_args

from spark_queue.checks import require_choice, require_key

T = TypeVar("T", bound=Hashable)

TaskOrder = Literal["arrival", "ungrouped_first", "least_congested"]

#: Entries of a heap that may be out of date before it is looked through.
_TOLERATED = 64


class _Entry(Generic[T]):
    __slots__ = ("group", "seq", "task")

    def __init__(self, task: T, seq: int, group: _RequestGroup[T] | None) -> None:
        self.task = task
        self.seq = seq
        self.group = group

    def __lt__(self, other: _Entry[T]) -> bool:
        return self.seq < other.seq


class _RequestGroup(Generic[T]):
    __slots__ = ("active", "key", "offered", "waiting")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.waiting: OrderedDict[int, _Entry[T]] = OrderedDict()
        self.active: T | None = None
        #: The entry under which it stands in the heap of groups, if it does.
        self.offered: _Offer[T] | None = None

    def __lt__(self, _: _RequestGroup[T]) -> bool:
        # Only an out-of-date entry of one group equals another of the same group.
        return False


#: A group that may start, by the rank of the group and the number of its first task.
_Offer = tuple[int, int, _RequestGroup[T]]


def _no_rank(_: _RequestGroup[T]) -> int:
    return 0


def _congestion(group: _RequestGroup[T]) -> int:
    return len(group.waiting)


#: For each order: the rank of a task without a group, and that of a group; the lowest is next,
#: among equals the earliest. A task without a group is as congested as a group of one.
_RANKS: dict[str, tuple[int, Callable[[_RequestGroup[T]], int]]] = {
    "arrival": (0, _no_rank),
    "ungrouped_first": (-1, _no_rank),
    "least_congested": (1, _congestion),
}


class TaskScheduler(Generic[T]):
    """Waiting tasks with their groups and deadlines, and the tasks that are active.

    Of one group one task is active at a time, and its tasks start in the order of their arrival.
    Every operation takes O(log n) time; groups without a task leave nothing behind. It has no
    lock, no clock, and runs nothing.

    Parameters
    ----------
    order : {"arrival", "ungrouped_first", "least_congested"}
        Which of the tasks that may start comes first: the earliest (default); one without a group;
        or one whose group has the fewest tasks waiting. The two others may let a task wait for as
        long as such ones keep coming.

    Examples
    --------
    >>> scheduler = TaskScheduler()
    >>> for task, group in [("T1", "g1"), ("T2", "g1"), ("T3", "g2")]:
    ...     assert scheduler.enqueue(task, group)
    >>> scheduler.take_next(), scheduler.take_next(), scheduler.take_next()
    ('T1', 'T3', None)
    >>> scheduler.complete("T1")
    True
    >>> scheduler.take_next()
    'T2'
    """

    def __init__(self, order: TaskOrder = "arrival") -> None:
        require_choice("order", order, get_args(TaskOrder))
        self._ungrouped_rank, self._rank = _RANKS[order]
        self._numbers = itertools.count()
        self._entries: dict[T, _Entry[T]] = {}
        self._ungrouped: OrderedDict[int, _Entry[T]] = OrderedDict()
        self._groups: dict[Hashable, _RequestGroup[T]] = {}
        # Heads of groups that may start. Entries are not taken out when they go out of date, but
        # skipped: one counts if it is the one that its group remembers.
        self._ready: list[_Offer[T]] = []
        self._deadlines: list[tuple[float, _Entry[T]]] = []
        self._active: dict[T, _RequestGroup[T] | None] = {}

    def __len__(self) -> int:
        """Return how many tasks wait."""
        return len(self._entries)

    @property
    def active_count(self) -> int:
        """How many tasks were started and not completed."""
        return len(self._active)

    @property
    def group_count(self) -> int:
        """How many groups have a task, waiting or active."""
        return len(self._groups)

    @property
    def active(self) -> list[T]:
        """The tasks that were started and not completed."""
        return list(self._active)

    def enqueue(
        self, task: T, group: Hashable | None = None, deadline: float | None = None
    ) -> bool:
        """Add a task; ``False`` when it is there already, waiting or active.

        Parameters
        ----------
        task : hashable
            Anything that is not ``None``.
        group : hashable or None
            Tasks of one group run one after another; ``None`` is no group.
        deadline : float, optional
            When it expires unless it was started.

        Raises
        ------
        InvalidArgumentError
            When the group cannot be hashed.
        """
        if task in self._entries or task in self._active:
            return False
        own = None if group is None else self._group(group)
        entry = _Entry(task, next(self._numbers), own)
        self._entries[task] = entry
        if own is None:
            self._ungrouped[entry.seq] = entry
        else:
            own.waiting[entry.seq] = entry
            if own.active is None:
                self._offer(own)
        if deadline is not None:
            heapq.heappush(self._deadlines, (deadline, entry))
            self._drop_old_deadlines()
        return True

    def take_next(self) -> T | None:
        """Start the next task that may; ``None`` when there is none."""
        entry = self._next_entry()
        if entry is None:
            return None
        task, group = entry.task, entry.group
        del self._entries[task]
        self._active[task] = group
        if group is None:
            del self._ungrouped[entry.seq]
        else:
            del group.waiting[entry.seq]
            group.active = task
            group.offered = None
            heapq.heappop(self._ready)
        return task

    def complete(self, task: T) -> bool:
        """End a task that was started, which frees its group; ``False`` when it was not."""
        if task not in self._active:
            return False
        group = self._active.pop(task)
        if group is not None:
            group.active = None
            self._settle(group)
        return True

    def remove(self, task: T) -> bool:
        """Take out a waiting task; ``False`` when it does not wait, or was started."""
        entry = self._entries.pop(task, None)
        if entry is None:
            return False
        if entry.group is None:
            del self._ungrouped[entry.seq]
        else:
            del entry.group.waiting[entry.seq]
            self._settle(entry.group)
        self._drop_old_deadlines()
        return True

    def expire(self, now: float) -> list[T]:
        """Take out the waiting tasks whose ``deadline <= now``, by deadline, then by arrival."""
        expired = []
        while (deadline := self.next_expiration()) is not None and deadline <= now:
            task = heapq.heappop(self._deadlines)[1].task
            self.remove(task)
            expired.append(task)
        return expired

    def next_expiration(self) -> float | None:
        """Return the earliest deadline of a waiting task; ``None`` without any."""
        while self._deadlines:
            deadline, entry = self._deadlines[0]
            if self._entries.get(entry.task) is entry:
                return deadline
            heapq.heappop(self._deadlines)
        return None

    def clear(self) -> list[T]:
        """Take out all waiting tasks, in the order of their arrival; active ones stay active."""
        tasks = list(self._entries)
        for task in tasks:
            self.remove(task)
        self._deadlines.clear()
        return tasks

    def is_free(self, group: Hashable | None) -> bool:
        """Whether a new task of a group would have none of its group before it."""
        return group is None or group not in self._groups

    def holder(self, group: Hashable | None) -> T | None:
        """Return the active task of a group; ``None`` when there is none."""
        own = None if group is None else self._groups.get(group)
        return None if own is None else own.active

    def _group(self, key: Hashable) -> _RequestGroup[T]:
        try:
            group = self._groups.get(key)
        except TypeError:
            require_key("group", key)
            raise
        if group is None:
            group = self._groups[key] = _RequestGroup(key)
        return group

    def _settle(self, group: _RequestGroup[T]) -> None:
        if group.active is not None:
            return
        if group.waiting:
            self._offer(group)
        else:
            group.offered = None
            del self._groups[group.key]
            self._drop_old_offers()

    def _offer(self, group: _RequestGroup[T]) -> None:
        old, rank, seq = group.offered, self._rank(group), next(iter(group.waiting))
        if old is None or old[1] != seq or old[0] != rank:
            group.offered = offer = (rank, seq, group)
            heapq.heappush(self._ready, offer)
            self._drop_old_offers()

    def _next_entry(self) -> _Entry[T] | None:
        """Return the entry to start; one of a group stands first in the heap of groups then."""
        ready = self._ready
        while ready and ready[0][2].offered is not ready[0]:
            heapq.heappop(ready)
        if not self._ungrouped:
            return ready[0][2].waiting[ready[0][1]] if ready else None
        seq = next(iter(self._ungrouped))
        if ready and ready[0] < (self._ungrouped_rank, seq):
            return ready[0][2].waiting[ready[0][1]]
        return self._ungrouped[seq]

    def _drop_old_offers(self) -> None:
        if len(self._ready) > 2 * len(self._groups) + _TOLERATED:
            offers = [group.offered for group in self._groups.values()]
            self._ready = [offer for offer in offers if offer is not None]
            heapq.heapify(self._ready)

    def _drop_old_deadlines(self) -> None:
        if len(self._deadlines) > 2 * len(self._entries) + _TOLERATED:
            self._deadlines = [
                timed for timed in self._deadlines if self._entries.get(timed[1].task) is timed[1]
            ]
            heapq.heapify(self._deadlines)
