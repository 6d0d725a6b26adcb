"""Enqueues of several threads in one step."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeGuard, cast

from spark_queue.commands.enqueued import Enqueued
from spark_queue.commands.rows import MarkedRows, join_rows
from spark_queue.errors import DuplicateItemError, FileAccessError, ReaderFullError
from spark_queue.state.request import EnqueueRules
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.step_line import LinePlace, StepLine
from spark_queue.state.steps import KNOWN_FOR, Answer, Decide
from spark_queue.state.store import Store

#: Rows of one caller up to which others wait for them.
_FEW = 100

#: Makes a step of the item log, and hands on its result before listeners hear of it.
MakeStep = Callable[[Decide[Enqueued], Callable[[Enqueued], None]], Enqueued]

#: Decides a step of some rows.
DecideRows = Callable[[MarkedRows, Snapshot], Answer[Enqueued]]

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
    return (rules.on_duplicate or config.on_duplicate) != "replace"


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
            _make_step(line, place, store.name, decide, make)
    if place.error is not None:
        raise place.error
    return place.done


def _make_step(line: _Line, first: _Place, name: str, decide: DecideRows, make: MakeStep) -> None:
    group = [first]

    def decide_all(at: Snapshot) -> Answer[Enqueued]:
        # Who has come since a try that was lost is in the next one.
        group[:] = line.group(first)
        return decide(join_rows([place.work for place in group]), at)

    def tell(done: Enqueued) -> None:
        line.tell(group, done.parts([place.work.count() for place in group]))

    try:
        make(decide_all, tell)
    except (DuplicateItemError, ReaderFullError) as exc:
        # Nothing was written, and it is the error of one of them.
        line.fail(group, exc if len(group) == 1 else None)
    except Exception as exc:  # noqa: BLE001 - each of them is told
        line.fail(group, exc)
    except BaseException:
        why = "the thread that made the step was interrupted: look whether the items are there"
        line.fail(group, FileAccessError(name, errno.EINTR, why))
        raise
