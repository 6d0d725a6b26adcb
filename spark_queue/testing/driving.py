"""A queue driven by a test: worked off on the spot, with items that fail and leases that are lost.

All of it is for a :class:`~spark_queue.LocalQueue`, whether it is in memory or on a disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal, overload

import pyarrow as pa

from spark_queue import checks
from spark_queue.claim import LocalClaim
from spark_queue.clock import ManualClock
from spark_queue.commands import asking, recovery
from spark_queue.errors import InvalidArgumentError
from spark_queue.local_queue import LocalVerbs
from spark_queue.log.schema import ACKED, CLAIMED
from spark_queue.processing import local_processing
from spark_queue.processing.event_loop import Awaiting, EventLoop
from spark_queue.processing.handler_types import AnyHandler, BatchHandler, ItemHandler, TableT
from spark_queue.processing.loop import Asked, ProcessResult, run_claims
from spark_queue.queue_views import store_of
from spark_queue.sql.where import choose
from spark_queue.state.store import Store
from spark_queue.views import views
from spark_queue.wording import shorten

#: Calls of a handler after which a queue is not one that a test drains.
_MOST = 10_000

#: The shortest time that a clock can be moved by.
_A_MOMENT = timedelta(microseconds=1)


@overload
def drain(
    queue: LocalVerbs,
    handler: ItemHandler | None = None,
    *,
    per: Literal["item"] = "item",
    limit: int = 1,
    through_delays: bool = False,
    raising: bool = False,
) -> ProcessResult: ...


@overload
def drain(
    queue: LocalVerbs,
    handler: BatchHandler[TableT],
    *,
    per: Literal["batch"],
    limit: int = 1,
    through_delays: bool = False,
    raising: bool = False,
) -> ProcessResult: ...


def drain(
    queue: LocalVerbs,
    handler: AnyHandler | None = None,
    *,
    per: Literal["item", "batch"] = "item",
    limit: int = 1,
    through_delays: bool = False,
    raising: bool = False,
) -> ProcessResult:
    """Work off all that may run now, in the thread of the caller, as ``process`` would.

    Parameters
    ----------
    queue : LocalQueue or LocalReader
        The queue, or one of its readers.
    handler : callable, optional
        As for :meth:`LocalQueue.process`; without it every item is simply done.
    per : "item" or "batch"
        What one call gets: an item as a dict, or a ``pyarrow.Table`` of items.
    limit : int
        How many items one claim takes at most. With 1 each item is chosen when the one before is
        settled, so that the order is that of the rules and of nothing else.
    through_delays : bool
        Where all that is left waits for a delay, or for the end of a lease, move the clock of the
        queue there, and go on. The clock must be a :class:`ManualClock`.
    raising : bool
        Raise the first error of the handler, once its item was settled as failed; no further item
        is begun. By default a failure is the item's alone, as for ``process``.

    Returns
    -------
    ProcessResult
        Counts of settled items, and of the ones that are left.

    Raises
    ------
    InvalidArgumentError
        When the clock is to be moved, and is none that can be; or an option is out of its range.
    AssertionError
        When the handler was called 10,000 times, and the queue is not empty.
    """
    checks.require_flag("through_delays", through_delays)
    checks.require_flag("raising", raising)
    checks.optional(checks.require_callable, "handler", handler)
    store = _store_of(queue)
    clock = _manual(store) if through_delays else None
    watched = _Watched(_done if handler is None else handler, raising=raising)
    around = store.handle.around or _as_it_is
    asked = Asked(handler=watched.handler, per=per, limit=limit)
    asked.check()
    local_processing.check(asked)
    with EventLoop() as loop:
        called = _watching(Awaiting(around(watched.handler), loop), watched)
        return _drain_all(store, replace(asked, handler=called), watched, clock)


def _drain_all(
    store: Store, asked: Asked, watched: _Watched, clock: ManualClock | None
) -> ProcessResult:
    total = ProcessResult()
    while True:
        result = _worked_off(store, asked, watched)
        total = _both(total, result)
        watched.raise_what_ends_it()
        if clock is None or result.stopped != "waiting" or result.until is None:
            return total
        clock.advance(max(result.until - clock.now(), _A_MOMENT))


def fail_next(
    queue: LocalVerbs,
    times: int = 1,
    *,
    error: Exception | str = "failed by the test",
    **columns: object,
) -> None:
    """Have the next items that a handler would get fail, without a call of it.

    It counts for ``drain`` and ``process``, threads and batches included: a batch with such an item
    fails. Children of this process fail theirs, too, but this process does not count these.

    Parameters
    ----------
    queue : LocalQueue or LocalReader
        The queue, or any of its readers: it is the next of any of them.
    times : int
        How many calls fail.
    error : Exception or str
        What the handler seems to raise; ``Reject(...)`` sends the item to the dead letters.
    **columns
        Only of items with these values, as :meth:`LocalQueue.cancel` takes them.

    Raises
    ------
    InvalidArgumentError
        When a column is unknown, or cannot have the value; or ``times`` is below 1.
    """
    checks.require_count("times", times)
    if not isinstance(error, Exception | str):
        raise InvalidArgumentError(f"error is {shorten(error)}: give an exception, or its text")
    store = _store_of(queue)
    choose(store, views.ARROW_VIEWS.status(store), columns)
    raised = RuntimeError(error) if isinstance(error, str) else error
    faults = store.handle.around
    if not isinstance(faults, _Faults):
        faults = store.handle.around = _Faults(store)
    faults.left.append(_Fault(raised, columns, times))


def lose_lease(held: LocalVerbs | LocalClaim, **columns: object) -> int:
    """Take items from their holder, as if it had died: they come back as lost.

    A loss is charged, as ``max_losses`` counts them, and the holder gets a
    :class:`~spark_queue.LeaseLostError` when it settles or renews. Where the claim names an output,
    its holder writes nothing there any more, and items that it has written count as done.

    Parameters
    ----------
    held : LocalQueue, LocalReader or LocalClaim
        One claim; or of a queue all claims with an item that is meant.
    **columns
        Only claims of items with these values, as :meth:`LocalQueue.cancel` takes them.

    Returns
    -------
    int
        How many items were lost. A lease is that of a whole claim, so all that is left of it is.

    Raises
    ------
    InvalidArgumentError
        When a column is unknown, or cannot have the value.
    """
    checks.require_kind("held", held, LocalVerbs | LocalClaim)
    store = held._store  # noqa: SLF001 - it is no user's business
    rows = choose(store, views.ARROW_VIEWS.status(store), {"_state": CLAIMED})
    if isinstance(held, LocalClaim):
        rows = choose(store, rows, {"_lease": held.lease})
    leases = sorted(set(choose(store, rows, columns)["_lease"].to_pylist()))
    return sum(_lose(store, lease) for lease in leases)


def _lose(store: Store, lease: int) -> int:
    """Settle a claim as lost; return how many items are, without what its output has."""
    grant = asking.grant_of(store, lease)
    if grant is None:
        return 0
    done = recovery.lose(store, lease, grant.claim_id)
    counts = {} if done is None else done.counts
    return sum(count for state, count in counts.items() if state != ACKED)


@dataclass(slots=True)
class _Fault:
    """What items fail with, how many calls of a handler long."""

    error: Exception
    columns: Mapping[str, object]
    left: int


@dataclass(slots=True)
class _Faults:
    """Put around handlers: fails those calls that a test has asked for."""

    store: Store
    left: list[_Fault] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, handler: AnyHandler) -> Callable[[Any], Any]:
        def call(given: Any) -> Any:
            error = self._next(_seqs(given)) if self.left else None
            if error is not None:
                raise error
            return handler(given)

        return call

    def _next(self, seqs: set[int]) -> Exception | None:
        """Return what a call with some items is to fail with."""
        with self.lock:
            for fault in self.left:
                rows = choose(self.store, views.ARROW_VIEWS.status(self.store), fault.columns)
                if seqs.isdisjoint(rows["_seq"].to_pylist()):
                    continue
                fault.left -= 1
                self.left = [one for one in self.left if one.left]
                return fault.error
        return None


@dataclass(slots=True)
class _Watched:
    """A handler of which it is known what it raised first, and how often it was called."""

    handler: AnyHandler
    raising: bool
    calls: int = 0
    error: BaseException | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    cut: threading.Event = field(default_factory=threading.Event)

    def note(self, error: BaseException | None) -> None:
        """Count a call, and see whether it is the last."""
        self.calls += 1
        self.error = self.error or error
        if self.calls >= _MOST or (self.raising and error is not None):
            self.stop.set()
            self.cut.set()

    def raise_what_ends_it(self) -> None:
        """Raise what the handler did where that is wanted, or that it is called without end."""
        if self.raising and self.error is not None:
            raise self.error
        if self.calls >= _MOST:
            raise AssertionError(
                f"the handler was called {self.calls:,} times, and the queue is not empty"
            )


def _watching(handler: Callable[[Any], Any], watched: _Watched) -> Callable[[Any], Any]:
    def call(given: Any) -> Any:
        error: BaseException | None = None
        try:
            return handler(given)
        except BaseException as exc:
            error = exc
            raise
        finally:
            watched.note(error)

    return call


def _worked_off(store: Store, asked: Asked, watched: _Watched) -> ProcessResult:
    hands = local_processing.hands_for(store, asked)
    hands.crew.is_here, hands.crew.cut = True, watched.cut
    return run_claims(store, hands, asked, watched.stop)


def _store_of(queue: LocalVerbs) -> Store:
    checks.require_kind("queue", queue, LocalVerbs)
    return store_of(queue)


def _manual(store: Store) -> ManualClock:
    if not isinstance(store.clock, ManualClock):
        raise InvalidArgumentError(
            f"through_delays moves the clock of the queue, a {type(store.clock).__name__}: "
            "make the queue with clock=ManualClock()"
        )
    return store.clock


def _both(first: ProcessResult, then: ProcessResult) -> ProcessResult:
    """Return what two runs did, and what the second has left."""
    return replace(
        then,
        claims=first.claims + then.claims,
        acked=first.acked + then.acked,
        failed=first.failed + then.failed,
        deferred=first.deferred + then.deferred,
        released=first.released + then.released,
        dead=first.dead + then.dead,
        seconds=first.seconds + then.seconds,
    )


def _seqs(given: Any) -> set[int]:
    """Return the items that a handler was given."""
    return set(given["_seq"].to_pylist()) if isinstance(given, pa.Table) else {given["_seq"]}


def _as_it_is(handler: AnyHandler) -> AnyHandler:
    return handler


def _done(given: Any) -> None:
    """Do nothing: the item is done."""
