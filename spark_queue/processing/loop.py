"""Process a queue: claim, have a handler run, settle, until there is nothing left.

The loop is the same with Spark and without. What runs the handler, and what keeps its results, are
the :class:`Hands` that it is given.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal, TypedDict, get_args

from spark_queue import checks
from spark_queue.claim import Claim, make_claim
from spark_queue.commands import claims, forward_items, recovery, settle
from spark_queue.commands.settle import SettledStep
from spark_queue.errors import InvalidArgumentError
from spark_queue.log.addresses import require_table
from spark_queue.log.step_events import logger
from spark_queue.processing.claim_length import ClaimLength
from spark_queue.processing.claim_parts import ClaimParts, Hands, WorkerDied
from spark_queue.processing.crew import Using
from spark_queue.processing.handler_types import AnyHandler
from spark_queue.rules.rule_model import Reason
from spark_queue.state import fence, step_waits
from spark_queue.state.request import Request
from spark_queue.state.settle_decision import ByARescuer, Every, Verdict
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.views.explaining import Standing, standing
from spark_queue.wording import plural, shorten

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class ProcessOptions(TypedDict, total=False):
    """The options of :meth:`Working.process` for any kind of handler."""

    limit: checks.ItemsPerClaim
    max_bytes: int | None
    lease: timedelta | None
    worker_id: str | None
    returns: StructType | pa.Schema | str | None
    output: str | None
    max_workers: int
    using: Using | None
    item_time_limit: timedelta | None
    time_limit: timedelta | None
    stop: threading.Event | None
    on_claim: Callable[[ProcessResult], None] | None
    forever: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """A handler, and how it is to be run, on any queue."""

    handler: AnyHandler
    per: Literal["item", "batch"] = "item"
    limit: checks.ItemsPerClaim = "auto"
    max_per_group: int | None = None
    lease: timedelta | None = None
    worker_id: str | None = None
    returns: StructType | pa.Schema | str | None = None
    output: str | None = None
    max_workers: int = 1
    using: Using | None = None
    item_time_limit: timedelta | None = None
    max_bytes: int | None = None
    time_limit: timedelta | None = None
    stop: threading.Event | None = None
    on_claim: Callable[[ProcessResult], None] | None = None
    forever: bool = False

    def check(self) -> None:
        """Raise where an option is none, on any queue."""
        checks.require_handler("handler", self.handler)
        checks.require_choice("per", self.per, ("item", "batch"))
        if not isinstance(self.limit, int) and not self._is_auto:
            raise InvalidArgumentError(
                f"limit is {shorten(self.limit)}: it must be a number of items, or 'auto'"
            )
        checks.require_claim(self._most(), self.lease, 1, self.worker_id)
        checks.optional(checks.require_count, "max_per_group", self.max_per_group, most=checks.MOST)
        checks.optional(checks.require_callable, "on_claim", self.on_claim)
        checks.optional(require_table, "output", self.output)
        if self.output is not None and self.returns is None:
            raise InvalidArgumentError("output is given without returns: say which columns it gets")
        checks.optional(checks.require_count, "max_bytes", self.max_bytes)
        checks.require_count("max_workers", self.max_workers, most=checks.MOST)
        checks.optional(checks.require_choice, "using", self.using, choices=get_args(Using))
        checks.optional(checks.require_duration, "item_time_limit", self.item_time_limit)
        if self.item_time_limit is not None and self.per == "batch":
            raise InvalidArgumentError("item_time_limit is given for batches: it is for items")
        checks.require_end(self.time_limit, self.stop)
        checks.require_flag("forever", self.forever)

    def handler_name(self) -> str:
        """Return the name by which this process knows how long items of the handler take."""
        inner: object = self.handler
        while (wrapped := getattr(inner, "handler", None)) is not None:
            inner = wrapped
        name = getattr(inner, "__qualname__", type(inner).__qualname__)
        return f"{inner.__module__}:{name}:{self.per}"

    def item_limit(self) -> float:
        """Return how many seconds an item may take."""
        limit = self.item_time_limit
        return math.inf if limit is None else limit.total_seconds()

    def request(self, store: Store, hands: int | None = None) -> Request:
        """Return what claims from a queue ask for.

        Hands, where they are given, work on one item each.
        """
        at, who = Snapshot(store), self.worker_id or worker_id(store)
        run, limit, is_auto = self._run(at), self._most(), self._is_auto
        most = checks.BYTES_PER_AUTO if is_auto else checks.BYTES_PER_CLAIM
        found = claims.request(at, limit, self.lease, who, run, None, self.max_bytes or most)
        target = found.lease / _TARGETS if is_auto else None
        return replace(found, target=target, hands=hands if self.per == "item" else None)

    def _most(self) -> int:
        """Return how many items a claim takes at most."""
        return self.limit if isinstance(self.limit, int) else _MOST

    @property
    def _is_auto(self) -> bool:
        """Whether claims are as long as their items take."""
        return isinstance(self.limit, str) and self.limit == "auto"

    def _run(self, at: Snapshot) -> int:
        """Return how many items of a group a claim takes."""
        most = self.max_per_group
        if most is None:
            grouped = at.settings.config.group_key is not None
            return self._most() if grouped and self.per == "item" else 1
        if most > 1 and self.per == "batch":
            raise InvalidArgumentError(f"max_per_group is {most}: with per='batch' it must be 1")
        return most


#: How many items a claim has at most that is as long as they take a target time.
_MOST = 1_000_000

#: Claims in the time of a lease, where each takes its target time.
_TARGETS = 20


def worker_id(store: Store) -> str:
    """Return an id for this process; others on this machine can tell from it whether it runs."""
    return fence.life_of(store.handle.place.directory())


#: Why processing ended. Of a queue that is paused or waits nothing could be claimed, though it is
#: not empty.
Stopped = Literal["empty", "paused", "waiting", "time limit", "stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """What processing a queue did."""

    claims: int = 0
    """Claims that got items."""
    acked: int = 0
    """Items done."""
    failed: int = 0
    """Failed attempts after which an item is retried."""
    deferred: int = 0
    """Items that wait as the handler said (``RetryAfter``), uncharged."""
    released: int = 0
    """Items given back untouched, and charged nothing, because one before them failed."""
    dead: int = 0
    """Items that went to the dead letters."""
    seconds: float = 0.0
    """How long it took."""
    stopped: Stopped = "empty"
    """Why it ended; ``"paused"`` and ``"waiting"``: with items left, of which none may run now."""
    waiting: Mapping[Reason, int] = field(default_factory=dict)
    """Those items, by the reason that holds them, as :meth:`DeltaQueue.explain` names it."""
    until: datetime | None = None
    """When time alone may let one of them run: the end of a delay, or of a lease."""

    def plus(self, done: SettledStep, seconds: float) -> ProcessResult:
        """Return the result after one more claim was settled, so many seconds after the start."""
        return replace(
            self,
            claims=self.claims + 1,
            acked=self.acked + done.counts.get("acked", 0),
            failed=self.failed + done.failed,
            deferred=self.deferred + done.deferred,
            released=self.released + done.released,
            dead=self.dead + done.counts.get("dead", 0),
            seconds=seconds,
        )

    def _repr_html_(self) -> str:
        deferred = f"{self.deferred} deferred, " if self.deferred else ""
        return (
            f"<b>{self.acked}</b> acked, <b>{self.failed}</b> failed, <b>{self.dead}</b> dead, "
            f"{deferred}{self.released} released in {plural(self.claims, 'claim')}, "
            f"{self.seconds:.1f} s ({self.stopped}{self._waiting_text()})"
        )

    def _waiting_text(self) -> str:
        counts = ", ".join(f"{count} {why}" for why, count in self.waiting.items())
        until = "" if self.until is None else f", until {self.until:%F %T%z}"
        return f": {counts}{until}" if counts else ""


def run_claims(store: Store, hands: Hands, asked: Asked, stop: threading.Event) -> ProcessResult:
    """Claim, run and settle until the queue is empty, the time is up, or someone stops it.

    For ever, an empty queue is waited at.
    """
    started = time.monotonic()
    result = ProcessResult()
    request = hands.begin(stop)
    lengths = ClaimLength(store, request, hands.handler_name, hands.first)
    limit, on_claim = asked.time_limit, asked.on_claim
    deadline = math.inf if limit is None else started + limit.total_seconds()
    waiter = step_waits.Waiter(store) if asked.forever else None
    ahead = _Ahead(store, lengths, lambda: _reason_to_stop(deadline, stop) is None, waiter)
    with ahead, waiter or nullcontext():
        while (reason := _reason_to_stop(deadline, stop)) is None:
            claim = ahead.next()
            if claim is None and waiter is not None:
                waiter.wait(deadline, stop)
                continue
            if claim is None or claim.count == 0:
                reason = "empty"
                break
            done = _work_off(store, claim, hands, ahead, request.target)
            result = result.plus(done, time.monotonic() - started)
            if on_claim is not None:
                on_claim(result)
    return _end(store, result, reason, time.monotonic() - started)


def _end(store: Store, result: ProcessResult, reason: Stopped, seconds: float) -> ProcessResult:
    """Return the whole result, with what is left of a queue that gave nothing more."""
    left = standing(store) if reason == "empty" else Standing()
    if left.waiting:
        reason = "paused" if "paused" in left.waiting else "waiting"
    return replace(result, seconds=seconds, stopped=reason, waiting=left.waiting, until=left.until)


class _Ahead:
    """The next claim, where it was made in the step that settled the one before.

    Leaving the block gives an unused claim back: uncharged, as if it had not been made.
    """

    def __init__(
        self,
        store: Store,
        lengths: ClaimLength,
        may_go_on: Callable[[], bool],
        waiter: step_waits.Waiter | None,
    ) -> None:
        self._store = store
        self._lengths = lengths
        self._may_go_on = may_go_on
        self._waiter = waiter
        self._claim: Claim | None = None
        self._is_over = False
        """Whether a settle came without a claim, as a rule as there is none: the rules say it."""

    def next(self) -> Claim | None:
        """Return the next claim; ``None`` where this process is to wait for it."""
        is_over, self._is_over = self._is_over, False
        if self._waiter is None:
            return self.take() or _next_claim(self._store, self._lengths.request())
        if is_over:
            return None
        self._waiter.look()
        claim = self.take()
        if claim is None or claim.count == 0:
            claim = _next_claim(self._store, self._lengths.request())
        if claim.count == 0:
            return None
        self._waiter.leave()
        return claim

    def take(self) -> Claim | None:
        """Return the claim, once, if its lease lasts: what came in between may have taken long."""
        claim, self._claim = self._claim, None
        if claim is None or not claim.count or claim.lease_expires_at > self._store.clock.now():
            return claim
        self._give_back(claim)
        return None

    def settle(self, claim: Claim, verdict: Verdict, seconds: float) -> SettledStep:
        """Settle a claim, and make the next one in the same step, if that is possible."""
        store, lengths = self._store, self._lengths
        if self._may_go_on():
            after = lengths.after(claim, seconds)
            request = lengths.request(after, held=claim)
            both = claims.settle_and_claim(store, claim.lease, verdict, request)
            if both is not None:
                lengths.learn(after)
                self._claim = Claim(store, both[1])
                return both[0]
        done = settle.settle(store, claim.lease, verdict)
        # With items that go back the next claim was not looked for.
        self._is_over = not (done.failed or done.deferred or done.released)
        lengths.learn(lengths.after(claim, seconds, done))
        return done

    def __enter__(self) -> None:
        """Do nothing: the block is for its end."""

    def __exit__(self, *_: object) -> None:
        left = self.take()
        if left is not None and left.count:
            self._give_back(left)

    def _give_back(self, claim: Claim) -> None:
        unbegun = Every("release", is_begun=False)
        settle.settle(self._store, claim.lease, ByARescuer(unbegun), action="recover")


def _reason_to_stop(deadline: float, stop: threading.Event) -> Stopped | None:
    if stop.is_set():
        return "stop"
    if time.monotonic() >= deadline:
        return "time limit"
    return None


def _next_claim(store: Store, request: Request) -> Claim:
    """Claim, after settling what the claims of processes that have ended have to show."""
    recovery.recover(store)
    return make_claim(Snapshot(store), request, Claim)


def _work_off(
    store: Store, claim: Claim, hands: Hands, ahead: _Ahead, target: timedelta | None
) -> SettledStep:
    parts = ClaimParts(store, claim, hands, target)
    try:
        with parts.keep():
            seconds = hands.work(claim)
            done = parts.finish(partial(ahead.settle, seconds=seconds))
            if done is None:
                logger.warning("%s was taken over while it worked; its output is dropped", claim)
                return parts.done
        forward_items.forward(store)
    except WorkerDied:
        logger.warning("a worker died of an item of %s: it runs again, each item apart", claim)
        return recovery.abandon(store, claim.lease, claim.id)
    except BaseException:
        recovery.abandon(store, claim.lease, claim.id)
        raise
    if done.lost:
        logger.warning("%s lost %d item(s) while it worked on them", claim, len(done.lost))
    hands.after_settle(claim, done)
    return done
