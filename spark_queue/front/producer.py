"""The producer of a front: puts that gathered become one enqueue, and each gets its own answer."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar, cast

from spark_queue import tracing
from spark_queue.errors import DuplicateItemError, QueueFullError, QueueShutDownError
from spark_queue.front.queue_ends import Inlet
from spark_queue.memory.journal.records import own
from spark_queue.memory.singular.requests import ExecutionContext, require_elsewhere
from spark_queue.memory.waiting.timer import Timeout, seconds
from spark_queue.rules.places import Holding
from spark_queue.state.request import FITTING, EnqueueRules

logger = logging.getLogger(__name__)

T = TypeVar("T")
U = TypeVar("U")


def settle(call: Callable[[U], None], outcome: U) -> None:
    """Give a future its outcome; a callback that would end the thread ends itself alone."""
    try:
        call(outcome)
    except BaseException:
        logger.exception("a callback failed")


class Batcher(Generic[T]):
    """A bounded line whose taker gets many at once.

    A group is cut when it has enough, or when its first thing has waited long enough; while the
    taker is busy with one group, the next one gathers.

    Parameters
    ----------
    max_group : int
        How many one group has at most.
    max_pending : int
        How many may wait; who adds one more waits for room.
    linger : timedelta
        How long things gather behind a group that was written; after a rest they are taken at once.
    name : str
        What messages call it.

    Attributes
    ----------
    context : ExecutionContext
        Where its things are taken and written: for the futures of those who wait for them.
    """

    def __init__(
        self, max_group: int, max_pending: int, linger: timedelta, *, name: str = "front"
    ) -> None:
        self.context = ExecutionContext(name)
        self._max_group = max_group
        self._max_pending = max_pending
        self._linger = linger.total_seconds()
        self._things: deque[T] = deque()
        self._lock = threading.Lock()
        self._has_room = threading.Condition(self._lock)
        self._has_things = threading.Condition(self._lock)
        self._is_written = threading.Condition(self._lock)
        self._taken = self._added = self._written = 0
        self._gathers_until = 0.0
        self._woken = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._things)

    def add(self, thing: T, timeout: Timeout = None) -> None:
        """Add a thing; wait for room, so long at most.

        Raises
        ------
        QueueFullError
            When there was no room in time.
        QueueShutDownError
            When the line is closed.
        DeadlockError
            When the caller is the taker, which would make the room.
        """
        patience = seconds("timeout", timeout)
        with self._lock:
            if not self._may_add() and patience != 0:
                self._require_elsewhere()
            if not self._has_room.wait_for(self._may_add, patience):
                raise QueueFullError(thing, len(self._things))
            if self._closed:
                raise QueueShutDownError("the queue is closed")
            self._things.append(thing)
            self._added += 1
            self._has_things.notify()

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Mark this thread as the taker: its callbacks must not wait for it."""
        self.context.enter()
        try:
            yield
        finally:
            self.context.leave()

    def wait(self, timeout: float) -> bool:
        """Wait until there is something to take, or the taker is woken; tell whether."""
        with self._lock:
            return self._has_things.wait_for(self._may_take, timeout)

    def take(self, timeout: float | None = None) -> list[T]:
        """Return the next group; an empty one when the time is up, or when nothing is to come."""
        with self._lock:
            self._has_things.wait_for(self._may_take, timeout)
            self._woken = False
            left = self._gathers_until - time.monotonic()
            if self._things and left > 0:
                self._has_things.wait_for(self._is_full, left)
            self._taken = min(len(self._things), self._max_group)
            group = [self._things.popleft() for _ in range(self._taken)]
            self._has_room.notify_all()
            return group

    def put_back(self, things: Sequence[T]) -> None:
        """Have things of the group taken once more, before all others."""
        with self._lock:
            self._things.extendleft(reversed(things))
            self._taken -= len(things)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Say that the group which was taken is being written; a join waits for it."""
        try:
            yield
        finally:
            with self._lock:
                if self._taken:
                    self._gathers_until = time.monotonic() + self._linger
                self._written += self._taken
                self._taken = 0
                self._is_written.notify_all()

    def join(self) -> None:
        """Return when everything that was added before is written.

        Raises
        ------
        DeadlockError
            When the caller is the taker, which would write it.
        """
        with self._lock:
            wanted = self._added
            if self._written < wanted:
                self._require_elsewhere()
            self._is_written.wait_for(lambda: self._written >= wanted)

    def wake(self) -> None:
        """End the wait of a taker, or the next one, with what there is."""
        with self._lock:
            self._woken = True
            self._has_things.notify_all()

    @property
    def is_done(self) -> bool:
        """Whether the line is closed and empty."""
        return self._closed and not self._things

    def close(self) -> None:
        """Refuse more things; the present ones are still given out."""
        with self._lock:
            self._closed = True
            self._has_room.notify_all()
            self._has_things.notify_all()

    def _require_elsewhere(self) -> None:
        require_elsewhere(self.context)

    def _may_add(self) -> bool:
        return self._closed or len(self._things) < self._max_pending

    def _may_take(self) -> bool:
        return bool(self._things) or self._woken or self._closed

    def _is_full(self) -> bool:
        return self._closed or len(self._things) >= self._max_group


#: What may become of an item that is put.
Became = Literal["inserted", "replaces", "follows", "duplicate", "replaced", "refused"]


@dataclass(frozen=True, slots=True)
class PutResult:
    """What became of an item that was put."""

    seq: int
    """Its number in the queue, refused or not."""
    outcome: Became
    """``refused`` where a reader was full; ``replaced`` by a later put of the same group."""
    duplicate_of: int | None = None
    """The item that has its key, or had it."""
    holder: Holding | None = None
    """Of a duplicate, whether that item waits, is busy or is over."""


@dataclass(frozen=True, slots=True)
class Put:
    """An item on its way in."""

    item: Any
    future: Future[PutResult]
    trace: str | None = None
    """The trace in which it was put."""
    rules: EnqueueRules = FITTING
    """What becomes of it where it cannot be taken."""

    @classmethod
    def of(cls, item: object, future: Future[PutResult], rules: EnqueueRules = FITTING) -> Put:
        """Copy an item: its owner may change it before it is written."""
        copied = own(dict(item)) if isinstance(item, Mapping) else item
        return cls(copied, future, tracing.current(), rules)


class Producer:
    """Enqueues what gathers, one group after another.

    Parameters
    ----------
    into : Inlet
        The queue.
    puts : Batcher
        Where puts wait.
    on_written : callable
        Called after each group that was written.
    """

    def __init__(self, into: Inlet, puts: Batcher[Put], *, on_written: Callable[[], None]) -> None:
        self._into = into
        self._puts = puts
        self._on_written = on_written

    def run(self) -> None:
        """Work until the line is closed and empty."""
        with self._puts.taking():
            while not self._puts.is_done:
                group = self._puts.take()
                with self._puts.busy():
                    self._write(group)

    def _write(self, group: Sequence[Put]) -> None:
        """Answer each of a group; what the queue cannot hold keeps no other from being written."""
        fitting = group
        try:
            fitting = self._fitting(group)
        except BaseException as exc:  # noqa: BLE001 - all waiters get any error
            for put in group:
                settle(put.future.set_exception, exc)
            return
        # Those that ask for the same are one step.
        for _, some in groupby(fitting, key=attrgetter("rules")):
            self._write_step(list(some))

    def _write_step(self, left: Sequence[Put]) -> None:
        """Answer each that is written in one step; a duplicate that raises does so alone."""
        try:
            results = self._enqueue(left)
            answers = list(zip(left, results, strict=True))
        except DuplicateItemError as exc:
            if len(left) == 1:
                settle(left[0].future.set_exception, exc)
                return
            for put in left:
                self._write_step([put])
            return
        except BaseException as exc:  # noqa: BLE001 - all waiters get any error
            for put in left:
                settle(put.future.set_exception, exc)
            return
        for put, result in answers:
            settle(put.future.set_result, result)
        if answers:
            self._on_written()

    def _fitting(self, group: Sequence[Put]) -> list[Put]:
        """Return what the queue can hold; the futures of the others fail, each by itself."""
        found = list(zip(group, self._into.misfits([put.item for put in group]), strict=True))
        for put, misfit in found:
            if misfit is not None:
                settle(put.future.set_exception, misfit)
        return [put for put, misfit in found if misfit is None]

    def _enqueue(self, group: Sequence[Put]) -> list[PutResult]:
        traces = [put.trace for put in group]
        items = [put.item for put in group]
        done = self._into.enqueue(items, traces, group[0].rules)
        told = sorted(done, key=lambda row: row[0])
        return [
            PutResult(seq, cast("Became", became), other, cast("Holding | None", holder))
            for seq, became, other, holder in told
        ]
