"""Leases of a front, renewed until their items are settled."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from spark_queue.claim import Claim
from spark_queue.clock import Clock
from spark_queue.errors import LeaseLostError
from spark_queue.saying import Said
from spark_queue.state.settle_decision import NAMED

logger = logging.getLogger(__name__)

#: Seconds until a step is tried again: after the first failure, doubled by each, and at most.
_FIRST, _MOST = 1 / 16, 10.0


class Retries:
    """One kind of step of a front, which is tried again for as long as the front lives.

    The first failure of its kind is logged, and the success that ends a row of them.

    Parameters
    ----------
    name : str
        The queue's name, for what is logged.
    what : str
        What the step does, as in "claims".
    now : callable
        Tells monotonic seconds.
    """

    def __init__(self, name: str, what: str, now: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._what = what
        self._now = now
        self._failures = 0
        self._said: set[object] = set()
        self._until = 0.0

    def is_due(self) -> bool:
        """Whether the pause after the last failure is over."""
        return not self._failures or self._now() >= self._until

    def attempt(self, step: Callable[[], object], most: float = _MOST) -> bool:
        """Do the step, and tell whether it went well; if not, it is due after a pause."""
        try:
            step()
        except BaseException as exc:  # noqa: BLE001 - without its thread, a front would hang
            self.note(exc, most)
            return False
        self.succeed()
        return True

    def note(self, error: BaseException, most: float = _MOST) -> None:
        """Count a failure."""
        self._until = self._now() + min(_FIRST * 2 ** min(self._failures, 30), most)
        self._failures += 1
        kind = (type(error), getattr(error, "errno", None))
        if kind in self._said:
            return
        self._said.add(kind)
        logger.warning(
            "%s: the front %s in vain, tries again ever more rarely, and says this once: %s",
            self._name,
            self._what,
            error,
            # What the system refuses needs no lines of ours.
            exc_info=None if isinstance(error, OSError) else error,
        )

    def succeed(self) -> None:
        """Count a success."""
        if self._failures:
            told = "%s: the front %s again, after %d failure(s)"
            logger.warning(told, self._name, self._what, self._failures)
        self._failures = 0
        self._said.clear()


#: Parts of a lease after which it is renewed.
_RENEWALS = 3


@dataclass(slots=True)
class _HeldClaim:
    """A claim, and its unsettled items."""

    claim: Claim
    lasts: timedelta
    open: set[int]
    given_up: dict[int, Said] = field(default_factory=dict)
    """Items that go back: none took them, or what was said of them could not be written."""

    def is_due(self, left: timedelta) -> bool:
        """Whether the lease should be renewed, with so much of it left."""
        return left <= self.lasts * (_RENEWALS - 1) / _RENEWALS


class Leases:
    """The claims of one front, changed by its thread alone.

    Parameters
    ----------
    name : str
        The queue's name, for what is logged.
    clock : Clock
        The queue's clock.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._held: dict[int, _HeldClaim] = {}
        self._renewals = Retries(name, "renews leases")
        self._releases = Retries(name, "gives items back")

    def add(self, claim: Claim, seqs: Iterable[int]) -> None:
        """Hold a claim of these items."""
        lasts = claim.lease_expires_at - claim.claimed_at
        self._held[claim.lease] = _HeldClaim(claim, lasts, set(seqs))

    def claim_of(self, lease: int) -> Claim | None:
        """Return the claim of a lease, unless all of it is settled or lost."""
        held = self._held.get(lease)
        return None if held is None else held.claim

    def is_live(self, lease: int, seq: int) -> bool:
        """Whether an item is still held; a lost one is another holder's."""
        held = self._held.get(lease)
        if held is None or seq not in held.open:
            return False
        return held.claim.lease_expires_at > self._clock.now()

    def close(self, lease: int, seqs: Iterable[int]) -> None:
        """Count items of a claim as settled, or lost; without any it is renewed no more."""
        held = self._held.get(lease)
        if held is not None:
            held.open.difference_update(seqs)
            self._drop_if_over(lease, held)

    def give_up(self, lease: int, seq: int, *, is_begun: bool = True) -> None:
        """Drop an item from its claim before the queue has its release."""
        held = self._held.get(lease)
        if held is not None and seq in held.open:
            held.open.remove(seq)
            held.given_up[seq] = Said("release", is_begun=is_begun)

    def give_up_unbegun(self, left: list[tuple[int, int]]) -> None:
        """Drop items, by lease and seq, that nothing has begun; the list is empty then."""
        while left:
            self.give_up(*left.pop(), is_begun=False)

    def free(self) -> None:
        """Release given-up items ahead of their claims, or try again later."""
        given_up = [(lease, held) for lease, held in self._held.items() if held.given_up]
        if given_up and self._releases.is_due():
            self._releases.attempt(lambda: _do_each(partial(self._free, *one) for one in given_up))

    def _free(self, lease: int, held: _HeldClaim) -> None:
        # Lost items are free, too.
        with suppress(LeaseLostError):
            held.claim.settle_each(held.given_up)
        held.given_up.clear()
        self._drop_if_over(lease, held)

    def _drop_if_over(self, lease: int, held: _HeldClaim) -> None:
        if not held.open and not held.given_up:
            del self._held[lease]

    def rest(self) -> timedelta:
        """Return how long no lease has to be renewed."""
        lasts = (held.lasts for held in self._held.values())
        return min(lasts, default=timedelta.max) / (2 * _RENEWALS)

    def renew(self) -> None:
        """Renew the leases that are due; a failure stops no other renewal."""
        now = self._clock.now()
        due = [
            (lease, held)
            for lease, held in self._held.items()
            if held.open and held.is_due(held.claim.lease_expires_at - now)
        ]
        if due and self._renewals.is_due():
            most = self.rest().total_seconds()
            renewals = [partial(self._renew, *one) for one in due]
            self._renewals.attempt(lambda: _do_each(renewals), most)

    def _renew(self, lease: int, held: _HeldClaim) -> None:
        try:
            held.claim.renew(held.lasts)
        except LeaseLostError as exc:
            logger.warning("%s: %s", self._name, exc)
            # An error names a thousand; where there may be more, none is handed out.
            self.close(lease, exc.seqs if len(exc.seqs) < NAMED else list(held.open))

    def give_back(self) -> None:
        """Release all unsettled items."""
        self.free()
        held = list(self._held.values())
        self._releases.attempt(lambda: _do_each(each.claim.release for each in held))


def _do_each(steps: Iterable[Callable[[], object]]) -> None:
    """Take every step; raise the last failure after all of them."""
    failure: Exception | None = None
    for step in steps:
        try:
            step()
        except Exception as exc:  # noqa: BLE001, PERF203 - it keeps no other from being taken
            failure = exc
    if failure is not None:
        raise failure


#: Items that a claim takes at most by default.
_MOST = 1_000

#: Claimed items last their takers so long, and so many times as long as the claim took.
_LASTS, _CLAIMS = timedelta(milliseconds=100), 10

#: A claim is at most so many times as large as the last one.
_FASTEST = 4

#: Items without a taker are given back after so many times their planned time.
_STALE = 10


class Prefetch:
    """Size of the next claim, from how fast the items of the last one were taken.

    Parameters
    ----------
    fixed : int, optional
        The size that was chosen; by default it is learnt.
    clock : Clock
        The queue's clock.
    """

    def __init__(self, fixed: int | None, clock: Clock) -> None:
        self._fixed = fixed
        self._clock = clock
        self._size = 1 if fixed is None else fixed
        self._lasts = _LASTS
        self._lease = timedelta.max
        self._filled_at: datetime | None = None
        self._ready = self._filled = 0
        self.is_ahead = True
        """Whether items are claimed before a taker waits for them."""

    @property
    def size(self) -> int:
        """How many items the next claim takes, unless more are waited for."""
        return self._size if self.is_ahead else 1

    def is_low(self, ready: int) -> bool:
        """Whether fewer items are ready than half of a claim."""
        return ready * 2 < self.size

    def fill(self, ready: int, claimed: int, began: datetime, lease: timedelta) -> None:
        """Note that a claim which began then brought items, and how many are ready now."""
        self._filled_at = self._clock.now()
        self._ready, self._filled, self._lease = ready, claimed, lease
        self._lasts = max(_LASTS, _CLAIMS * (self._filled_at - began))

    def learn(self, ready: int) -> None:
        """Choose the size of the next claim, now that so few items of the last one are left."""
        if self._fixed is not None or not self._filled:
            return
        taken, since = self._ready - ready, self._since()
        pace = taken * (self._lasts / max(since, timedelta.resolution))
        self._size = max(1, int(min(pace, _FASTEST * self._filled, _MOST)))
        self._filled = 0

    def time_left(self) -> timedelta:
        """Return how long ready items may be held before a taker comes."""
        if self._filled_at is None:
            return timedelta.max
        most = self._lease if self._fixed is not None else min(self._lease, _STALE * self._lasts)
        return most - self._since()

    def forget(self) -> None:
        """Begin again with single items, after the items claimed ahead were given back."""
        self._filled_at, self._filled = None, 0
        if self._fixed is None:
            self._size = 1

    def _since(self) -> timedelta:
        return timedelta(0) if self._filled_at is None else self._clock.now() - self._filled_at
