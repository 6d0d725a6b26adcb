"""One step of a queue: decided on a snapshot, committed, applied, reported; retried if lost.

The only loop over lost steps. A decision is made under the lock of the log, each time as of a new
snapshot, and has no effect of its own.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from spark_queue.errors import SparkQueueError, StepLostError
from spark_queue.log.delta.integrity import is_torn
from spark_queue.log.delta.log import Log
from spark_queue.log.heads import QueueHead, StatusHead
from spark_queue.log.step_events import Engine, LogName, StepFacts, StepTimes, tell
from spark_queue.log.storage import LogMoved
from spark_queue.state.commit_step import commit_items, commit_status
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: How often, and for how many seconds, a step is tried against other writers before it raises.
MAX_TRIES, _PATIENCE = 20, 30.0

#: Seconds for which a known head is good enough where nothing depends on the newest step.
KNOWN_FOR = 10.0

#: Seconds within which others have hardly committed once more.
_JUST = 0.1

#: Steps of up to this many rows are written as one file.
_SMALL = 100_000

#: The longest pause, in seconds, before a lost step is tried again.
_MAX_PAUSE = 0.5

_NO_TIMES = StepTimes()

_Head = TypeVar("_Head", QueueHead, StatusHead)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[_T]):
    """The caller's answer; by itself it needs no step."""

    answer: _T


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Answer[_T], Generic[_Head, _T]):
    """A step that was decided, and the answer once it is committed."""

    head: _Head
    rows: DataFrame | pa.Table | None = None
    counts: Mapping[str, int] | None = None
    """The counts that the step reports; ``None`` for no report."""
    small: bool = True
    """Whether the rows are written as one file."""
    lease: int = 0
    """The claim that it is about, as :attr:`StepFacts.lease` tells it."""
    failed: int = 0
    """Items that failed and are ready again."""
    deferred: int = 0
    """Items that their holder deferred."""
    engine: Engine = "python"
    """The engine that decided it."""


#: Decides a step as of a snapshot, or answers without one.
Decide = Callable[[Snapshot], Answer[_T]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try(Generic[_T]):
    """A try that was not lost."""

    done: Answer[_T]
    times: StepTimes = _NO_TIMES


def engine_of(rows: DataFrame | pa.Table, here: Engine = "duckdb") -> Engine:
    """Return the engine that decided rows: Spark, or the one in this process."""
    return here if isinstance(rows, pa.Table) else "spark"


def is_small(rows: int) -> bool:
    """Whether a step has so few rows that it is written as one file."""
    return rows <= _SMALL


def on_items(
    store: Store,
    action: str,
    decide: Decide[_T],
    *,
    at: Snapshot | None = None,
    started: float | None = None,
    older_than: float = 0.0,
    tell: Callable[[_T], None] | None = None,
    rest: Callable[[], bool] = lambda: False,
) -> _T:
    """Make a step of the item log, and return its answer.

    Parameters
    ----------
    action : str
        What the step does, for listeners and for the error.
    decide : callable
        Gets the queue at that try.
    at : Snapshot, optional
        The queue as the caller has seen it a moment ago, so that a shared store is not looked at
        twice.
    started : float, optional
        When the work for the step began, in monotonic seconds; now by default.
    older_than : float
        How old, in seconds, the known head of the other log may be, where a look is a request.
    tell : callable, optional
        Gets the answer before listeners hear of the step.
    rest : callable, optional
        Waits after a lost try; where it returns False, a random pause is made.

    Raises
    ------
    StepLostError
        After :data:`MAX_TRIES` steps and half a minute in which all were lost to other writers.
    """
    tries = Tries(store, "queue", action, older_than, at)
    return _until_ours(tries, decide, started, tell, rest)


def on_status(
    store: Store,
    action: str,
    decide: Decide[_T],
    *,
    at: Snapshot | None = None,
    older_than: float = 0.0,
) -> _T:
    """Make a step of a reader's status log, and return its answer; as :func:`on_items`."""
    return _until_ours(Tries(store, "status", action, older_than, at), decide)


def once_on_items(store: Store, action: str, decide: Decide[_T]) -> _T | None:
    """Try a step of the item log once; ``None`` if another writer won."""
    return _once(Tries(store, "queue", action), decide)


def once_on_status(store: Store, action: str, decide: Decide[_T]) -> _T | None:
    """Try a step of a status log once; ``None`` if another writer won."""
    return _once(Tries(store, "status", action), decide)


def known_first(store: Store, attempt: Callable[[], _T]) -> _T:
    """Answer without writing, from heads known some seconds ago.

    An attempt that raises is repeated over what is there now: others may have committed since, or
    this process have added columns. Logs that cost no request are always looked at.
    """
    if not store.queue.is_remote:
        return attempt()
    with store.queue.still(KNOWN_FOR), store.status.still(KNOWN_FOR):
        try:
            return attempt()
        except SparkQueueError:
            store.queue.look()
            store.status.look()
    return attempt()


# rule: lost step
def until_done(
    action: str,
    attempt: Callable[[], _T | None],
    patience: float = _PATIENCE,
    rest: Callable[[], bool] = lambda: False,
) -> _T:
    """Retry with random rests until an attempt answers; ``rest`` may wait in another way.

    Raises
    ------
    StepLostError
        After :data:`MAX_TRIES` attempts, where as many seconds are over.
    """
    end = time.monotonic() + patience
    for count in itertools.count(1):
        done = attempt()
        if done is not None:
            return done
        if count >= MAX_TRIES and time.monotonic() >= end:
            break
        if rest():
            continue
        # A longer exponent would be too large a number in the end.
        most = min(_MAX_PAUSE, 0.01 * 2 ** min(count, MAX_TRIES))
        time.sleep(random.uniform(0, most))  # noqa: S311
    raise StepLostError(action, count)


def report(
    store: Store,
    log: LogName,
    action: str,
    done: Step[Any, Any],
    started: float,
    tries: int = 1,
    times: StepTimes = _NO_TIMES,
) -> None:
    """Report a step to the logger and the listener; ``started`` is a monotonic time.

    The step is committed. A listener that fails is only logged, and the caller still gets the
    answer: a claim whose holder never heard of it would wait for its lease to run out.
    """
    facts = StepFacts(
        queue=store.name,
        log=log,
        step=done.head.step,
        action=action,
        counts=dict(done.counts or {}),
        seconds=time.monotonic() - started,
        tries=tries,
        lease=done.lease,
        failed=done.failed,
        deferred=done.deferred,
        reader=store.reader if log == "status" else 0,
        engine=done.engine,
        times=times,
    )
    tell(facts, store.listener)


def _until_ours(
    tries: Tries,
    decide: Decide[_T],
    started: float | None = None,
    hand_on: Callable[[_T], None] | None = None,
    rest: Callable[[], bool] = lambda: False,
) -> _T:
    started = time.monotonic() if started is None else started
    ours = until_done(tries.action, lambda: tries.attempt(decide), rest=rest)
    if hand_on is not None:
        hand_on(ours.done.answer)
    return _answer(tries, ours, started)


def _once(tries: Tries, decide: Decide[_T]) -> _T | None:
    started = time.monotonic()
    ours = tries.attempt(decide)
    return None if ours is None else _answer(tries, ours, started)


def _answer(tries: Tries, ours: _Try[_T], started: float) -> _T:
    """Return the answer of a try that was not lost, and report its step."""
    done = ours.done
    if isinstance(done, Step) and done.counts is not None:
        report(tries.store, tries.log, tries.action, done, started, tries.count, ours.times)
    return done.answer


class Tries:
    """The tries of one step, and their looks at remote logs.

    The first one goes by the known head of the log that it writes: if that is old, its commit is
    lost. A decision that writes nothing, or raises, stands only if no one else has committed.

    Parameters
    ----------
    store : Store
        The queue.
    log : str
        The log that is written.
    action : str
        What the step does.
    older_than : float
        How old, in seconds, the known head of the other log may be at the first try.
    at : Snapshot, optional
        The queue as the caller has seen it.
    """

    def __init__(
        self,
        store: Store,
        log: LogName,
        action: str,
        older_than: float = 0.0,
        at: Snapshot | None = None,
    ) -> None:
        self.store, self.log, self.action = store, log, action
        logs: tuple[Log[Any], Log[Any]] = (store.queue, store.status)
        self._own, self._other = logs if log == "queue" else logs[::-1]
        self._older_than = older_than
        self._given, self._seen = at, _snapshots(store, at)
        self._is_first, self.count = False, 0
        self._began = time.monotonic()

    def attempt(self, decide: Decide[_T]) -> _Try[_T] | None:
        """Try the step; ``None`` where it was lost."""
        self.count += 1
        try:
            return self._attempt(decide)
        except Exception as exc:
            # Others have committed to the other log: nothing was written.
            if not isinstance(exc, LogMoved) and not is_torn(exc):
                raise
        return None

    def _attempt(self, decide: Decide[_T]) -> _Try[_T] | None:
        given = self._given if self.count == 1 else None
        is_followed = given is not None and given.has_followed(_JUST)
        if self.log == "status" and not is_followed and self.store.is_local():
            # What others wrote so far is followed before this holds them up.
            _ = self.store.status_head()
        with self.store.writing(self.log), self.begin() as at:
            began = time.monotonic()
            if self.log == "status" and at.status.step:
                # A newer release may have upgraded the queue since it was opened here.
                _ = at.settings
            decided = self.decide(at, decide)
            if not isinstance(decided, Step):
                return None if decided is None else _Try(done=decided)
            until = time.monotonic()
            commit = commit_items if self.log == "queue" else commit_status
            took = commit(at, decided.head, decided.rows, small=decided.small)
            if took is None:
                return None
            apply = time.monotonic() - until - took
            times = StepTimes(decide=until - began, commit=took, apply=apply)
            return _Try(done=decided, times=times)

    @contextmanager
    def begin(self) -> Iterator[Snapshot]:
        """Yield the snapshot of the next try; both heads stay fixed within."""
        if not self._own.is_remote:
            yield next(self._seen)
            return
        self._is_first = self.count == 1
        if self._is_first:
            with self._own.still(None), self._own.still_beside(self._other, self._older_than):
                yield next(self._seen)
            return
        # A lost try has looked at its own log, and at the other one since it began.
        since = time.monotonic() - self._began
        with self._own.still(_JUST), self._other.still(since):
            yield next(self._seen)

    def decide(self, at: Snapshot, decide: Decide[_T]) -> Answer[_T] | None:
        """Return the decision; ``None`` if a new try must decide."""
        try:
            decided = decide(at)
        except SparkQueueError:
            if self._is_outdated():
                return None
            raise
        return None if not isinstance(decided, Step) and self._is_outdated() else decided

    def _is_outdated(self) -> bool:
        """Whether the first try went by an old view."""
        return self._is_first and self._own.has_news()


def _snapshots(store: Store, first: Snapshot | None = None) -> Iterator[Snapshot]:
    """Yield a snapshot of the queue for each try of a step.

    On this machine's disk it is taken under the log's lock. Elsewhere the first try may use an
    earlier one: if others have committed since, that try is lost.
    """
    is_good = first is not None and first.has_spark and first.is_recent() and not first.is_local
    if first is not None and is_good and not store.queue.is_remote:
        yield first
    while True:
        yield Snapshot(store)
