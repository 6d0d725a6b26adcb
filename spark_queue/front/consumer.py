"""The consumer of a front: it claims ahead, hands out one by one, and writes outcomes together."""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from spark_queue import checks
from spark_queue.errors import LeaseLostError, QueueShutDownError
from spark_queue.front.leases import Leases, Prefetch, Retries
from spark_queue.front.producer import Batcher, settle
from spark_queue.front.queue_ends import Outlet
from spark_queue.log.schema import TRACE
from spark_queue.memory.blocking import BlockingQueue
from spark_queue.memory.singular.requests import Promise
from spark_queue.memory.waiting import aio
from spark_queue.memory.waiting.timer import Timeout, seconds
from spark_queue.saying import Said
from spark_queue.state.settle_decision import NAMED
from spark_queue.state.step_waits import TICK, Look

#: Outcomes that may wait; who settles one more waits for room.
_MAX_PENDING = 1_000_000

#: How long an outcome waits for others.
_LINGER = timedelta(milliseconds=1)

#: How often the write of an outcome is tried before its future fails.
_MAX_FAILURES = 5

#: Seconds before an outcome is written for the second time; doubled each time.
_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Delivery:
    """An item in the hands of its taker, until it is settled."""

    seq: int
    """Its number in the queue."""
    lease: int
    """The lease under which it is held."""
    attempts: int
    """How often it failed before."""
    item: Mapping[str, object]
    """The queue's columns."""
    trace: str | None = None
    """The trace that it belongs to, as :attr:`Claim.traces` has it."""


@dataclass(slots=True, eq=False)
class PendingOutcome:
    """What a taker says of an item."""

    delivery: Delivery
    said: Said
    future: Future[None]
    failures: int = 0
    """How often it could not be written."""


class Consumer:
    """Claims ahead, hands out, renews, and settles, on one thread of its own.

    Parameters
    ----------
    source : Outlet
        The queue, as one of its readers sees it.
    prefetch : int, optional
        How many items a claim takes at most; by default as many as will soon be taken.
    lease : timedelta, optional
        How long it holds; the queue's lease by default.
    max_group : int
        How many outcomes are written together at most.
    pause : callable
        Waits for so many seconds.
    """

    def __init__(
        self,
        source: Outlet,
        prefetch: int | None,
        lease: timedelta | None,
        max_group: int,
        *,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._source = source
        self._pause = pause
        self._prefetch = Prefetch(prefetch, source.clock)
        self._lease = lease
        self._ready: BlockingQueue[Delivery] = BlockingQueue()
        self._outcomes: Batcher[PendingOutcome] = Batcher(
            max_group, _MAX_PENDING, _LINGER, name=source.name
        )
        self._leases = Leases(source.name, source.clock)
        self._claims = Retries(source.name, "claims")
        self._settles = Retries(source.name, "settles")
        self._lock = threading.Lock()
        self._looks: list[Future[None]] = []
        self._takers = 0
        self._is_asked = self._is_over = False
        self._seen: Look | None = None
        self._rest = float("inf")
        self._left: list[tuple[int, int]] = []

    def get(self, timeout: Timeout) -> Delivery:
        """Take the next item, in the queue's order; without patience, look for it once."""
        patience = seconds("timeout", timeout)
        while True:
            with self._naming_the_wait(patience):
                delivery = self._looked_for() if patience == 0 else self._await_item(patience)
            if self._leases.is_live(delivery.lease, delivery.seq):
                return delivery
            self._let_go(delivery)

    async def get_async(self, timeout: Timeout) -> Delivery:
        """Take the next item, without blocking the loop."""
        patience = seconds("timeout", timeout)
        while True:
            with self._naming_the_wait(patience), self._waiting():
                self._ask()
                if patience == 0 and not self._ready.size():
                    await aio.outcome(self._next_look())
                delivery = await self._ready.aio.get(patience)
            if self._leases.is_live(delivery.lease, delivery.seq):
                return delivery
            self._let_go(delivery)

    @contextmanager
    def _naming_the_wait(self, patience: float | None) -> Iterator[None]:
        """Say of which queue there was no item, and after what wait."""
        try:
            yield
        except queue.Empty:
            wait = f"within {patience:g} s" if patience else "that may run now"
            raise queue.Empty(f"queue {self._source.name!r} had no item {wait}") from None

    def _await_item(self, timeout: Timeout) -> Delivery:
        with self._waiting():
            self._ask()
            return self._ready.get(timeout)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Count a taker in the scope: takers cause claims and looks."""
        with self._lock:
            self._takers += 1
        try:
            yield
        finally:
            with self._lock:
                self._takers -= 1

    def _looked_for(self) -> Delivery:
        """Take a ready item; else wait for one claim, however long it takes."""
        try:
            return self._ready.poll()
        except queue.Empty:
            self._next_look().result()
            return self._ready.poll()

    def _next_look(self) -> Future[None]:
        """Return a future that is done after the next look at the queue."""
        look: Future[None] = Future()
        with self._lock:
            if self._is_over:
                look.set_result(None)
            else:
                self._looks.append(look)
        self._outcomes.wake()
        return look

    def _ask(self) -> None:
        """Have more claimed, if little is ready."""
        if self._prefetch.is_low(self._ready.size()):
            self._is_asked = True
            self._outcomes.wake()

    def settle(self, delivery: Delivery, said: Said) -> Future[None]:
        """Note what a taker says of an item; it is written with others."""
        checks.require_kind("delivery", delivery, Delivery)
        future: Future[None] = Promise(self._outcomes.context)
        outcome = PendingOutcome(delivery, said, future)
        self._outcomes.add(outcome)
        return outcome.future

    def look_again(self) -> None:
        """Say that there may be something to claim."""
        self._outcomes.wake()

    def join(self) -> None:
        """Return when all that was said before is written."""
        self._outcomes.join()

    def run(self, poll_every: timedelta) -> None:
        """Work until closed; then write all outcomes, and give the rest back."""
        with self._outcomes.taking():
            Retries(self._source.name, "recovers").attempt(self._source.recover)
            while not self._outcomes.is_done:
                self._work(poll_every)
            self._answer_looks()
            self._leases.give_up_unbegun(self._left)
            self._leases.give_back()

    def _work(self, poll_every: timedelta) -> None:
        self._look(poll_every.total_seconds())
        patience = min(poll_every, self._leases.rest())
        if self._ready.size():
            patience = min(patience, self._prefetch.time_left())
        group = self._next_group(patience.total_seconds())
        with self._outcomes.busy():
            self._write(group)
        if not self._takers and self._ready.size() and self._prefetch.time_left() <= timedelta(0):
            self._give_back_ahead()
        self._leases.renew()
        self._leases.free()

    def _give_back_ahead(self) -> None:
        """Give back items claimed ahead: they lack a taker, or their key may be paused."""
        self._prefetch.forget()
        self._is_asked = False
        self._take_out()
        self._leases.give_up_unbegun(self._left)

    def _take_out(self) -> None:
        """Take out the items that were claimed ahead: they have no taker, and go back."""
        with suppress(queue.Empty, QueueShutDownError):
            while True:
                delivery = self._ready.poll()
                self._left.append((delivery.lease, delivery.seq))

    def close(self) -> None:
        """Hand out nothing more, and let the thread end."""
        self._ready.close()
        self._take_out()
        self._outcomes.close()

    def _let_go(self, delivery: Delivery) -> None:
        """Release an item that came too late for its taker, who has not begun it."""
        with suppress(QueueShutDownError):
            self.settle(delivery, Said("release", is_begun=False))

    def _next_group(self, patience: float) -> list[PendingOutcome]:
        """Return pending outcomes; nothing when the queue needs a look."""
        end = time.monotonic() + min(patience, self._rest)
        while (left := end - time.monotonic()) > 0:
            # Who waits for an item waits for what other processes write, too.
            if self._outcomes.wait(min(left, TICK) if self._takers else left):
                break
            if self._takers and self._seen is not None and self._seen.is_outdated():
                break
        return self._outcomes.take(0)

    def _look(self, poll_every: float) -> None:
        """Claim what comes next, if few items are ready, and tell those who asked for a look."""
        with self._lock:
            looks, self._looks = self._looks, []
        self._seen, self._rest = None, poll_every
        if looks or self._claims.is_due():
            is_wanted = self._is_wanted(has_looks=bool(looks))
            if is_wanted and not self._claims.attempt(self._claim_ahead):
                # What others write is no reason to try again at once.
                self._seen = None
        for look in looks:
            look.set_result(None)

    def _is_wanted(self, *, has_looks: bool) -> bool:
        """Whether to claim: there is demand, and few items are ready."""
        ready = self._ready.size()
        if not self._prefetch.is_low(ready):
            return False
        is_asked, self._is_asked = self._is_asked, False
        if is_asked or has_looks:
            self._prefetch.learn(ready)
        # One at a time means on demand: nothing is held without a taker.
        is_ahead = is_asked and self._prefetch.size > 1
        return self._prefetch.is_low(ready) and (has_looks or self._takers > 0 or is_ahead)

    def _answer_looks(self) -> None:
        with self._lock:
            self._is_over = True
            looks, self._looks = self._looks, []
        for look in looks:
            look.set_result(None)

    def _claim_ahead(self) -> None:
        self._seen = self._source.look()
        self._prefetch.is_ahead = not self._source.is_paced()
        began = self._source.clock.now()
        claim = self._source.claim(max(self._prefetch.size, self._takers), self._lease)
        if claim.count == 0:
            self._rest = self._source.rest(self._rest)
            return
        try:
            rows = list(self._source.rows(claim))
        except BaseException:
            # Items that were not read cannot be handed out: they must not wait for the lease.
            self._source.release_unbegun(claim)
            raise
        self._leases.add(claim, [row["_seq"] for row in rows])
        lease = claim.lease_expires_at - claim.claimed_at
        self._prefetch.fill(self._ready.size() + len(rows), len(rows), began, lease)
        for row in rows:
            self._hand_out(_delivery(row))

    def _hand_out(self, delivery: Delivery) -> None:
        """Let an item be taken; a front that closes in between gives it back."""
        try:
            self._ready.put(delivery)
        except QueueShutDownError:
            self._left.append((delivery.lease, delivery.seq))

    def _write(self, group: Sequence[PendingOutcome]) -> None:
        """Settle a group of outcomes, one step for each claim."""
        by_lease: dict[int, list[PendingOutcome]] = defaultdict(list)
        for outcome in group:
            by_lease[outcome.delivery.lease].append(outcome)
        for lease, outcomes in by_lease.items():
            self._settle(lease, outcomes)

    def _settle(self, lease: int, outcomes: Sequence[PendingOutcome]) -> None:
        claim = self._leases.claim_of(lease)
        first = {outcome.delivery.seq: outcome for outcome in reversed(outcomes)}
        lost: set[int] = set()
        try:
            if claim is None:
                raise LeaseLostError(sorted(first))  # noqa: TRY301 - told like any other loss
            claim.settle_each({seq: one.said for seq, one in first.items()})
        except LeaseLostError as exc:
            # An error names a thousand; where there may be more, none counts as settled.
            lost = set(exc.seqs if len(exc.seqs) < NAMED else first)
        except BaseException as exc:  # noqa: BLE001 - after any error the next try may succeed
            self._fail(outcomes, exc)
            return
        self._settles.succeed()
        if any(one.said.pause is not None for one in outcomes):
            self._give_back_ahead()
        for outcome in outcomes:
            _answer(outcome, first[outcome.delivery.seq], lost)
        self._leases.close(lease, first)

    def _fail(self, outcomes: Sequence[PendingOutcome], error: BaseException) -> None:
        """Have outcomes written again; tell who waits once that failed too often.

        Such an item is freed as soon as that can be written, even while its claim is held.
        """
        self._settles.note(error)
        for one in outcomes:
            one.failures += 1
        given_up = [one for one in outcomes if one.failures >= _MAX_FAILURES]
        again = [one for one in outcomes if one.failures < _MAX_FAILURES]
        for one in given_up:
            settle(one.future.set_exception, error)
            self._leases.give_up(one.delivery.lease, one.delivery.seq)
        if again:
            self._outcomes.put_back(again)
            self._pause(_PAUSE * 2 ** min(one.failures for one in again))


def _delivery(row: Mapping[str, Any]) -> Delivery:
    plain = dict(row)
    seq, attempts = plain.pop("_seq"), plain.pop("_attempts")
    return Delivery(seq, plain.pop("_lease"), attempts, plain, plain.pop(TRACE, None))


def _answer(outcome: PendingOutcome, first: PendingOutcome, lost: set[int]) -> None:
    """Settle the future of an outcome; of two for one item, the second is too late."""
    seq = outcome.delivery.seq
    if seq in lost:
        settle(outcome.future.set_exception, LeaseLostError([seq]))
    elif outcome is not first:
        settle(outcome.future.set_exception, LeaseLostError([seq], "it was settled before"))
    else:
        settle(outcome.future.set_result, None)
