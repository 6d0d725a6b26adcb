"""Claim at work: who runs its handler, its parts, and the length of the next one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from spark_queue import saying
from spark_queue.claim import Claim
from spark_queue.commands import settle
from spark_queue.commands.claims import new_claim_id
from spark_queue.commands.settle import SettledStep
from spark_queue.errors import LeaseLostError
from spark_queue.item_context import Said
from spark_queue.log.schema import TERMINAL
from spark_queue.log.step_events import logger
from spark_queue.state.request import Request
from spark_queue.state.settle_decision import Some, Verdict
from spark_queue.state.store import Store

#: Parts of a lease after which it is renewed while a handler runs.
RENEWALS = 3

#: How fast runs grow while nothing goes back, and at most when something does.
_FASTEST, _FAST = 4.0, 2.0

#: One claim does not make runs shorter than this, or than half: the next may do better.
_SHORT = 100.0

#: Items that may go back for each one that is done. More means more rows.
_BACK = 0.7


class RunLength:
    """How many items of a group a claim takes: about as many as it will work off.

    An item that is claimed and goes back costs two rows, and so does one that is done. So runs
    grow while they are worked off, and shrink while more goes back than is done. A run is also to
    end before its lease is renewed: in older formats a renewal is a row for each item.

    The length is known to this process, for all that process items of this reader.

    Parameters
    ----------
    store : Store
        The queue, as its reader sees it.
    request : Request
        What claims ask for; no run is longer than its.
    """

    def __init__(self, store: Store, request: Request) -> None:
        self._store = store
        self._request = request
        self._known = store.position()

    def request(self, length: float | None = None) -> Request:
        """Return what the next claim asks for, with runs of a length or of the known one."""
        wanted = self._known.run_length if length is None else length
        limit = int(min(self._request.limit, self._known.claim_length))
        run = max(1, min(self._request.run, int(wanted)))
        return replace(self._request, claim_id=new_claim_id(), run=run, limit=limit)

    def fit(self, claim: Claim, done: SettledStep) -> None:
        """Have the next claims be as long as was worked off, where the rest went back for time."""
        took = self._store.clock.now() - claim.claimed_at
        if done.released and took >= self._request.lease / RENEWALS:
            self._known.claim_length = max(1.0, float(claim.count - done.released))
        elif claim.count >= self._known.claim_length:
            self._known.claim_length *= _FAST

    def learn(self, length: float) -> None:
        """Keep a length for the next claims."""
        if self._request.run > 1:
            self._known.run_length = max(1.0, length)

    def after(self, claim: Claim, done: SettledStep | None = None) -> float:
        """Return the length after a claim is settled; without how, if nothing of it goes back."""
        known = self._known.run_length
        longest = min(known, self._request.run, claim.count)
        in_time = self._in_time(claim, longest)
        back = 0 if done is None else done.released
        if done is None or back == 0:
            return in_time if in_time < longest else max(known, min(_FASTEST * longest, in_time))
        finished = sum(n for state, n in done.counts.items() if state in TERMINAL)
        wanted = min(_BACK * finished / back, _FAST) * longest
        return min(max(wanted, min(longest / 2, _SHORT)), in_time)

    def _in_time(self, claim: Claim, longest: float) -> float:
        """Return how many items of a group are worked off before a lease is renewed."""
        if claim.count == self._request.limit > longest:
            # It took the time of other items, and there is no room for longer runs.
            return self._known.run_length
        took = max(self._store.clock.now() - claim.claimed_at, timedelta.resolution)
        # What a claim takes by itself may be longer, and is no reason for ever shorter runs.
        return max(longest * (self._request.lease / RENEWALS / took), min(longest, _SHORT))


class WorkerDied(Exception):  # noqa: N818 - what happened; it is not shown to users
    """A worker died of an item: which one it was is not known, and will be the next time."""


class Hands(Protocol):
    """Who runs a handler on the items of a claim, and keeps what it returns."""

    patience: float
    """Seconds after which :meth:`look` is called again."""

    def begin(self, stop: threading.Event) -> Request:
        """Make the place of the results ready, and return what claims ask for.

        Parameters
        ----------
        stop : threading.Event
            Set when nothing further is to begin.
        """

    def work(self, claim: Claim) -> None:
        """Run the handler.

        Raises
        ------
        WorkerDied
            When the items are to be given back, and run again.
        """

    def tell_part(self, claim: Claim) -> Some | None:
        """Write the results since the last part, while the handler runs.

        It runs beside :meth:`work`, and once before :meth:`tell`. After an error the next call
        writes the same results.

        Returns
        -------
        Some or None
            The outcomes; ``None`` where the claim was taken over.
        """

    def tell(self, claim: Claim) -> Verdict | None:
        """Write the remaining results; ``None`` where the claim was taken over.

        All earlier parts are settled by then.
        """

    def look(self) -> bool:
        """Charge what takes too long, and tell whether there was any."""

    def progress(self) -> Mapping[int, Said]:
        """Return how far handlers are with items, where that is not written yet."""

    def note_written(self, news: Mapping[int, Said]) -> None:
        """Note that a renewal has written how far handlers are."""

    def lose(self, seqs: Sequence[int]) -> None:
        """Tell the handler of items that the claim lost: cancelled, or taken over."""

    def after_settle(self, claim: Claim, done: SettledStep) -> None:
        """Say what there is to say of a claim that is settled."""


class ClaimParts:
    """A claim at work: finished items are settled each third of its lease.

    So one item that hangs holds up no other, and is all that a kill repeats.
    """

    def __init__(self, store: Store, claim: Claim, hands: Hands) -> None:
        self._store = store
        self._claim = claim
        self._hands = hands
        self._settling = threading.Lock()
        self._is_taken = False
        self._told: Mapping[int, saying.Said] = {}
        self._lost: frozenset[int] = frozenset()
        self.done = SettledStep(step=0, counts={}, lost=())
        """The settlements so far, added up."""

    @contextmanager
    def keep(self) -> Iterator[None]:
        """Settle finished items, and renew the rest, in the background while the block runs."""
        held_for = self._claim.lease_expires_at - self._claim.claimed_at
        is_over = threading.Event()

        def renew() -> None:
            each = held_for.total_seconds() / RENEWALS
            due = time.monotonic() + each
            while not is_over.wait(max(min(self._hands.patience, due - time.monotonic()), 0)):
                is_due = time.monotonic() >= due
                if self._hands.look() or is_due:
                    self._settle_part()
                if is_due:
                    self._renew(held_for)
                    due = time.monotonic() + each

        thread = threading.Thread(target=renew, name=f"renew-{self._claim.lease}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _renew(self, by: timedelta) -> None:
        news = self._hands.progress()
        try:
            self._claim.renew(by, progress=news)
            self._hands.note_written(news)
        except LeaseLostError as exc:
            # The others were renewed.
            self._hands.note_written(news)
            if not self._lost.issuperset(exc.seqs):
                logger.warning("%s: %s", self._claim, exc)
            self._lost |= {*exc.seqs}
            self._hands.lose(exc.seqs)
        except Exception as exc:  # noqa: BLE001 - the next may go well, and the settle tells
            logger.warning("%s could not be renewed: %s", self._claim, exc)

    def finish(self, settle_rest: Callable[[Claim, Verdict], SettledStep]) -> SettledStep | None:
        """Settle the rest as the caller does; ``None`` where the claim was taken over."""
        with self._settling:
            # The record of the last part says that all others are done: none may be left by then.
            self._try_to_settle()
            verdict = None if self._is_taken else self._hands.tell(self._claim)
            if verdict is None:
                return None
            self.done = self.done.plus(settle_rest(self._claim, verdict))
            return self.done

    def _settle_part(self) -> None:
        """Settle finished items, unless the rest is being settled: that may take long."""
        if self._is_taken or not self._settling.acquire(blocking=False):
            return
        try:
            self._try_to_settle()
        except Exception as exc:  # noqa: BLE001 - these items are settled with the next part
            logger.warning("%s: what is done of it could not be settled: %s", self._claim, exc)
        finally:
            self._settling.release()

    def _try_to_settle(self) -> None:
        """Settle the last part, then the next: the output records only one."""
        self._settle_told()
        part = None if self._is_taken else self._hands.tell_part(self._claim)
        self._is_taken = part is None
        if part is not None:
            self._told = part.outcomes
            self._settle_told()

    def _settle_told(self) -> None:
        if self._told:
            done = settle.settle(self._store, self._claim.lease, Some(self._told))
            self.done, self._told = self.done.plus(done), {}
