"""Ownership of a queue by one front: taking it over, keeping it, and giving it up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pyarrow as pa

from spark_queue.errors import FencedError, WriterLockedError
from spark_queue.log.heads import QueueHead, StatusHead, following
from spark_queue.log.step_events import logger
from spark_queue.state import fence
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.steps import Answer, Step, on_items, on_status, once_on_items
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Rows of a status log, and how many they are.
GivenBack: TypeAlias = "tuple[DataFrame | pa.Table, int]"

_Head = TypeVar("_Head", QueueHead, StatusHead)

#: How long a front holds a queue on a shared store without renewing.
HOLD = timedelta(seconds=30)

#: Parts of a hold after which it is renewed.
_RENEWALS = 3


class Ownership:
    """Ownership of a queue by one front, from its taking over to its giving up.

    Taking over is a step of each log: from then on no step of a former holder follows. What that
    one may still hand out ends with its hold, and is waited for.

    Parameters
    ----------
    store : Store
        The queue; the token of its owner is written into it.
    given_back : callable
        Returns the rows that give back what is claimed as of a step of a reader's log.
    """

    def __init__(
        self,
        store: Store,
        given_back: Callable[[Store, StatusHead], GivenBack],
    ) -> None:
        self._store = store
        self._given_back = given_back
        self._token = fence.new_holder(store.handle.place.directory())
        store.handle.holder = self._token
        self._until = 0.0
        self._is_shared = not store.is_local()
        self._over = threading.Event()
        self._positions: Callable[[], Sequence[Store]] = list

    def begin(self, positions: Callable[[], Sequence[Store]]) -> None:
        """Take over the items, then the readers' positions; return once no former holder hands out.

        Raises
        ------
        WriterLockedError
            When a front of another process on this machine holds the queue.
        """
        before = self._take_items()
        for place in positions():
            self.take_position(place)
        self._positions = positions
        if self._is_shared:
            # The wait for the former holder may be as long as our own hold.
            threading.Thread(target=self._keep_holding, name="hold", daemon=True).start()
        self._outwait(before)

    def is_held(self) -> bool:
        """Tell whether no other front can have taken the queue over."""
        if not fence.is_ours(self._token):
            return False
        return not self._is_shared or time.monotonic() < self._until

    def require_held(self, head: QueueHead | StatusHead) -> None:
        """Raise where another front has logged itself as the holder.

        Raises
        ------
        FencedError
            It names the front.
        """
        if head.hold.by != self._token:
            self._lose()
            who = f"the front {head.hold.by}" if head.hold.by else "somebody who wrote or freed it"
            raise FencedError(f"queue {self._store.name!r}", who)

    def renew_hold(self, head: _Head) -> _Head:
        """Return a head whose step renews the hold."""
        return fence.with_hold(head, self._token, self._store.clock.now() + HOLD)

    def was_renewed(self, at: float) -> None:
        """Count the hold from an instant of the monotonic clock, before its step was made.

        Raises
        ------
        FencedError
            When it had run out, and somebody has written to the log of a reader meanwhile: what
            was claimed there is not to be handed out here.
        """
        if self._is_shared and self._until < at:
            for place in self._positions():
                self.require_held(place.status_head())
        self._until = at + HOLD.total_seconds()

    def end(self) -> None:
        """Give the queue up, so that other processes may write to it."""
        if self._over.is_set():
            return
        try:
            if self.is_held():
                self._free()
        finally:
            self._lose()

    def end_with_the_queue(self) -> None:
        """Give up a queue that is about to be removed."""
        self._lose()

    def take_position(self, place: Store) -> None:
        """Log the holder in a reader's log; its claimed items are ready again, uncharged."""

        def decide(at: Snapshot) -> Step[StatusHead, None]:
            before = at.status
            rows, count = self._given_back(place, before) if before.claimed else (None, 0)
            head = following(before, claimed=0, log_rows=before.log_rows + count)
            return Step(head=self.renew_hold(head), rows=rows, answer=None)

        on_status(place, "take over", decide)

    def _take_items(self) -> QueueHead:
        """Log who holds the queue now; return the head before."""

        def decide(at: Snapshot) -> Step[QueueHead, tuple[QueueHead, float]]:
            self._require_free(at.queue)
            return self._holding(at.queue)

        before, at = on_items(self._store, "take over", decide)
        self.was_renewed(at)
        fence.leave(before.hold.by)
        return before

    def _require_free(self, before: QueueHead) -> None:
        directory = self._store.handle.place.directory()
        if directory is not None and fence.is_of_another(before.hold, directory):
            raise WriterLockedError(self._store.name, fence.pid_of(before.hold))

    def _holding(self, before: QueueHead) -> Step[QueueHead, tuple[QueueHead, float]]:
        """Return the step that renews the hold; its answer has the former head, and an instant."""
        at = time.monotonic()
        return Step(head=self.renew_hold(following(before)), answer=(before, at))

    def _outwait(self, before: QueueHead) -> None:
        """Wait until a former front of another process hands out nothing any more."""
        hold, now = before.hold, self._store.clock.now()
        if not self._is_shared or fence.is_over(hold, now, None):
            return
        left = fence.time_left(hold, now)
        logger.info("%s: waiting %s for the front %s", self._store.name, left, hold.by)
        time.sleep(left.total_seconds())

    def _keep_holding(self) -> None:
        while not self._over.wait(HOLD.total_seconds() / _RENEWALS):
            self._renew()

    def _renew(self) -> None:
        try:
            renewed = once_on_items(self._store, "renew the hold", self._still_holding)
            if renewed is not None:
                self.was_renewed(renewed[1])
        except FencedError as exc:
            logger.warning("%s: %s", self._store.name, exc)
        except Exception as exc:  # noqa: BLE001 - the next renewal may go well
            logger.warning("%s could not be held longer: %s", self._store.name, exc)

    def _still_holding(self, at: Snapshot) -> Step[QueueHead, tuple[QueueHead, float]]:
        self.require_held(at.queue)
        return self._holding(at.queue)

    def _free(self) -> None:
        def decide(at: Snapshot) -> Answer[None]:
            before = at.queue
            if before.hold.by != self._token:
                return Answer(answer=None)
            return Step(head=fence.without_hold(following(before)), answer=None)

        on_items(self._store, "free", decide)

    def _lose(self) -> None:
        self._over.set()
        fence.leave(self._token)
