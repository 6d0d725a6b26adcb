"""Enqueues of several threads in one step."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import TypeGuard, cast

from spark_queue.commands.enqueued import Enqueued
from spark_queue.commands.pending_enqueue import DecideRows, PendingEnqueue, pending_rows_of
from spark_queue.commands.rows import MarkedRows, join_rows
from spark_queue.errors import DuplicateItemError, FileAccessError, ReaderFullError
from spark_queue.state.request import EnqueueRules
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.step_line import LinePlace, StepLine
from spark_queue.state.steps import KNOWN_FOR, Decide
from spark_queue.state.store import Store

#: Rows of one caller up to which others wait for them.
_FEW = 100

#: Makes a step of the item log, hands on its result before listeners hear of it, and waits by the
#: last one after a lost try.
MakeStep = Callable[[Decide[Enqueued], Callable[[Enqueued], None], Callable[[], bool]], Enqueued]

_Line = StepLine[MarkedRows, Enqueued]
_Place = LinePlace[MarkedRows, Enqueued]


def may_share(frame: object, store: Store, rules: EnqueueRules) -> TypeGuard[MarkedRows]:
    """Return whether rows enter in one step with those of other threads, if these wait.

    Each of them is told what it would be by itself; of rows that replace others that is not so.
    """
    if not store.queue.is_remote or not isinstance(frame, MarkedRows) or Snapshot(store).has_spark:
        return False
    if frame.extra or frame.count() > _FEW or (rules.debounce, rules.at_most) != (None, None):
        return False
    with store.queue.still(KNOWN_FOR), store.status.still(KNOWN_FOR):
        config = Snapshot(store).settings.config
    return rules.within(config).replacing is None


def share_step(
    store: Store, rows: MarkedRows, rules: EnqueueRules, decide: DecideRows, make: MakeStep
) -> Enqueued | None:
    """Enqueue rows in one step with those of other threads; ``None`` if they need their own.

    Raises
    ------
    FileAccessError
        What became of the step is unclear, perhaps as the thread that made it was interrupted.
    """
    line = cast("_Line", store.handle.line)
    with line.entering(rows, (rules, rows.rows.schema, rows.given.schema)) as place:
        if line.is_first(place):
            _SharedStep(line, place, store).make(rules, decide, make)
    if place.error is not None:
        raise place.error
    return place.done


class _SharedStep:
    """The step that the first thread of a line makes for a group of it."""

    def __init__(self, line: _Line, first: _Place, store: Store) -> None:
        self._line, self._first, self._store = line, first, store
        self._group = [first]
        self._others: PendingEnqueue | None = None

    def make(self, rules: EnqueueRules, decide: DecideRows, make: MakeStep) -> None:
        """Make the step, or have another process make it, and tell each of the group."""
        try:
            self._make(rules, decide, make)
        except Exception as exc:  # noqa: BLE001 - each of them is told
            self._fail(exc)
        except BaseException:
            why = "the thread that made the step was interrupted: look whether the items are there"
            self._line.fail(self._group, FileAccessError(self._store.name, errno.EINTR, why))
            raise
        finally:
            self._end()

    def _make(self, rules: EnqueueRules, decide: DecideRows, make: MakeStep) -> None:
        pending = pending_rows_of(self._store, rules)
        if pending is None:
            make(lambda at: decide(self._gather(), at), self._tell, lambda: False)
            return
        self._others = others = PendingEnqueue(self._store, pending, self._gather)
        done = others.follow()
        if done is None:
            make(partial(others.decide, decide=decide), self._tell, others.rest)
        else:
            self._tell(done)

    def _gather(self) -> MarkedRows:
        # Who has come since a try that was lost is in the next one.
        self._group[:] = self._line.group(self._first)
        return join_rows([place.work for place in self._group])

    def _end(self) -> None:
        if self._others is not None:
            self._others.end()

    def _tell(self, done: Enqueued) -> None:
        # A listener may make steps, too.
        self._end()
        self._line.tell(self._group, done.parts([place.work.count() for place in self._group]))

    def _fail(self, exc: Exception) -> None:
        error: Exception | None = exc
        if self._others is not None and self._others.name is not None:
            error = self._others.unclear(exc)
        elif len(self._group) > 1 and isinstance(exc, DuplicateItemError | ReaderFullError):
            # Nothing was written, and it is the error of one of them.
            error = None
        self._line.fail(self._group, error)
