"""Claim at work: who runs its handler, and the parts in which it is settled."""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta

from spark_queue import saying
from spark_queue.claim import Claim
from spark_queue.commands import settle
from spark_queue.commands.settle import SettledStep
from spark_queue.errors import LeaseLostError
from spark_queue.item_context import Said
from spark_queue.log.step_events import logger
from spark_queue.processing.calling import warn_of_rows
from spark_queue.state.request import Request
from spark_queue.state.settle_decision import Some, Verdict
from spark_queue.state.store import Store

#: Parts of a lease after which it is renewed while a handler runs.
RENEWALS = 3


class WorkerDied(Exception):  # noqa: N818 - what happened; it is not shown to users
    """A worker died of an item: which one it was is not known, and will be the next time."""


# Of a handler that is not watched nothing is known until it is done.
class Hands(ABC):
    """Who runs a handler on the items of a claim, and keeps what it returns."""

    patience: float
    """Seconds after which :meth:`look` is called again."""
    handler_name: str
    """Which handler runs."""
    first: int
    """How many items the first claim takes that is as long as they take a target time."""
    is_unasked = False
    """Whether the handler gave rows without ``returns`` or ``output``."""
    _has_warned = False

    @abstractmethod
    def begin(self, stop: threading.Event) -> Request:
        """Make the place of the results ready, and return what claims ask for.

        Parameters
        ----------
        stop : threading.Event
            Set when nothing further is to begin.
        """

    @abstractmethod
    def work(self, claim: Claim) -> float:
        """Run the handler, and return the seconds that it took.

        Raises
        ------
        WorkerDied
            When the items are to be given back, and run again.
        """

    def tell_part(self, claim: Claim) -> Some | None:  # noqa: ARG002
        """Write the results since the last part, while the handler runs.

        It runs beside :meth:`work`, and once before :meth:`tell`. After an error the next call
        writes the same results.

        Returns
        -------
        Some or None
            The outcomes, none by default; ``None`` where the claim was taken over.
        """
        return Some({})

    @abstractmethod
    def tell(self, claim: Claim) -> Verdict | None:
        """Write the remaining results; ``None`` where the claim was taken over.

        All earlier parts are settled by then.
        """

    def look(self) -> bool:
        """Charge what takes too long, and tell whether there was any."""
        return False

    def progress(self) -> Mapping[int, Said]:
        """Return how far handlers are with items, where that is not written yet."""
        return {}

    def note_written(self, news: Mapping[int, Said]) -> None:  # noqa: B027
        """Note that a renewal has written how far handlers are."""

    def lose(self, seqs: Sequence[int]) -> None:  # noqa: B027
        """Tell the handler of items that the claim lost: cancelled, or taken over."""

    def after_settle(self, claim: Claim, done: SettledStep) -> None:  # noqa: ARG002
        """Say what there is to say of a claim that is settled."""
        if self.is_unasked and not self._has_warned:
            self._has_warned = True
            warn_of_rows()


class ClaimParts:
    """A claim at work: finished items are settled each third of its lease, or target time.

    So one item that hangs holds up no other, and is all that a kill repeats.

    Parameters
    ----------
    store : Store
        The queue, as its reader sees it.
    claim : Claim
        The claim.
    hands : Hands
        Who works on it.
    target : timedelta, optional
        The time that its items are to take together.
    """

    def __init__(self, store: Store, claim: Claim, hands: Hands, target: timedelta | None) -> None:
        self._store = store
        self._claim = claim
        self._hands = hands
        self._target = math.inf if target is None else target.total_seconds()
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
            renewal, part = _Tick(each), _Tick(min(each, self._target))
            dues = (renewal, part)
            while not is_over.wait(min(self._hands.patience, *(due.rest() for due in dues))):
                is_late = self._hands.look()
                if part.is_now() or is_late:
                    self._settle_part()
                if renewal.is_now():
                    self._renew(held_for)

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


class _Tick:
    """Instant that comes again, some seconds after it was noticed."""

    def __init__(self, each: float) -> None:
        self._each = each
        self._at = time.monotonic() + each

    def rest(self) -> float:
        """Return the seconds until then."""
        return max(self._at - time.monotonic(), 0)

    def is_now(self) -> bool:
        """Tell whether it is time; then the next instant counts."""
        if time.monotonic() < self._at:
            return False
        self._at = time.monotonic() + self._each
        return True
