"""Loop of a step: decided on the newest head, committed, told; tried again.

The only loop over lost steps. What decides is called under the lock of the log, each time on the
head that is the newest then, and has no effect of its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from spark_queue.delta.store.committing import commit_items, commit_status
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import LogName, StepFacts, tell
from spark_queue.delta.tables.far_commits import look_again
from spark_queue.delta.tables.heads import QueueHead, StatusHead
from spark_queue.delta.tables.torn import is_torn
from spark_queue.errors import StepLostError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: How often a step is tried against other writers before the caller is told.
MAX_TRIES = 20

#: Steps of up to this many rows are written as one file.
_SMALL = 100_000

#: The longest pause, in seconds, before a lost step is tried again.
_MAX_PAUSE = 0.5

_Head = TypeVar("_Head", QueueHead, StatusHead)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[_T]):
    """What the caller gets; by itself it needs no step."""

    answer: _T


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Answer[_T], Generic[_Head, _T]):
    """A step that was decided, and the answer once it is committed."""

    head: _Head
    rows: DataFrame | pa.Table | None = None
    counts: Mapping[str, int] | None = None
    """What is told of the step; ``None`` where nobody is told."""
    small: bool = True
    """Whether the rows are written as one file."""
    lease: int = 0
    """The claim that it is about, as :attr:`StepFacts.lease` tells it."""
    failed: int = 0
    """Items that failed and are ready again."""


#: Decides a step on the newest head, or answers without one.
Decide = Callable[[_Head], Answer[_T]]


def is_small(rows: int) -> bool:
    """Tell whether a step has so few rows that it is written as one file."""
    return rows <= _SMALL


def on_items(
    store: Store, action: str, decide: Decide[QueueHead, _T], *, started: float | None = None
) -> _T:
    """Make a step of the item log, and return its answer.

    Parameters
    ----------
    action : str
        What the step is, for those who are told and for the error.
    decide : callable
        Gets the newest head.
    started : float, optional
        When the work for the step began, in monotonic seconds; now by default.

    Raises
    ------
    StepLostError
        After :data:`MAX_TRIES` steps that were lost to other writers.
    """
    return _until_ours(store, "queue", action, lambda: _on_items(store, decide), started)


def on_status(
    store: Store, action: str, decide: Decide[StatusHead, _T], *, started: float | None = None
) -> _T:
    """Make a step of a reader's status log, and return its answer; as :func:`on_items`."""
    return _until_ours(store, "status", action, lambda: _on_status(store, decide), started)


def once_on_items(store: Store, action: str, decide: Decide[QueueHead, _T]) -> _T | None:
    """Try a step of the item log once; ``None`` where it was lost to another writer."""
    return _once(store, "queue", action, lambda: _on_items(store, decide))


def once_on_status(store: Store, action: str, decide: Decide[StatusHead, _T]) -> _T | None:
    """Try a step of a status log once; ``None`` where it was lost to another writer."""
    return _once(store, "status", action, lambda: _on_status(store, decide))


# rule: lost step
def until_done(action: str, attempt: Callable[[], _T | None]) -> _T:
    """Repeat what other writers can make fail, with a drawn pause, until it answers.

    Raises
    ------
    StepLostError
        After :data:`MAX_TRIES` attempts.
    """
    for count in range(1, MAX_TRIES + 1):
        done = attempt()
        if done is not None:
            return done
        time.sleep(random.uniform(0, min(_MAX_PAUSE, 0.01 * 2**count)))  # noqa: S311
    raise StepLostError(action, MAX_TRIES)


def report(
    store: Store,
    log: LogName,
    step: int,
    action: str,
    counts: Mapping[str, int],
    started: float,
    tries: int = 1,
    *,
    lease: int = 0,
    failed: int = 0,
) -> None:
    """Tell the logger and the listener what a step did; ``started`` is a monotonic time.

    The step is committed. A listener that fails is logged, and keeps nobody from what is theirs
    by that step: a claim whose holder never heard of it would wait for its lease to run out.
    """
    done = StepFacts(
        queue=store.name,
        log=log,
        step=step,
        action=action,
        counts=dict(counts),
        seconds=time.monotonic() - started,
        tries=tries,
        lease=lease,
        failed=failed,
        reader=store.reader if log == "status" else 0,
    )
    tell(done, store.listener)


#: Tries a step: what was decided, or ``None`` where the step was lost.
_Attempt = Callable[[], Answer[_T] | None]


def _until_ours(
    store: Store, log: LogName, action: str, attempt: _Attempt[_T], started: float | None
) -> _T:
    started = time.monotonic() if started is None else started
    count = 0

    def counted() -> Answer[_T] | None:
        nonlocal count
        count += 1
        return _tried(attempt)

    done = until_done(action, counted)
    _tell(store, log, action, done, started, count)
    return done.answer


# rule again: lost step
def _once(store: Store, log: LogName, action: str, attempt: _Attempt[_T]) -> _T | None:
    started = time.monotonic()
    done = _tried(attempt)
    if done is None:
        return None
    _tell(store, log, action, done, started, 1)
    return done.answer


def _tried(attempt: _Attempt[_T]) -> Answer[_T] | None:
    done = None
    try:
        done = attempt()
    except Exception as exc:
        # Others have committed to the log that was looked at beside: nothing was written.
        if not is_torn(exc):
            raise
    if done is None:
        look_again()
    return done


def _on_items(store: Store, decide: Decide[QueueHead, _T]) -> Answer[_T] | None:
    with store.writing("queue"):
        decided = decide(store.queue_head())
        if not isinstance(decided, Step):
            return decided
        ours = commit_items(store, decided.head, decided.rows, small=decided.small)
        return decided if ours else None


def _on_status(store: Store, decide: Decide[StatusHead, _T]) -> Answer[_T] | None:
    with store.writing("status"):
        before = store.status_head()
        if before.step:
            # A newer release may have upgraded the queue since it was opened here.
            store.settings(before)
        decided = decide(before)
        if not isinstance(decided, Step):
            return decided
        ours = commit_status(store, decided.head, decided.rows, small=decided.small)
        return decided if ours else None


def _tell(
    store: Store, log: LogName, action: str, done: Answer[_T], started: float, tries: int
) -> None:
    if isinstance(done, Step) and done.counts is not None:
        about = {"lease": done.lease, "failed": done.failed}
        report(store, log, done.head.step, action, done.counts, started, tries, **about)
