"""The leases of a front: its claims, renewed as long as somebody works on one of their items."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from spark_queue.claim import Claim
from spark_queue.clock import Clock
from spark_queue.delta.commands.settle import NAMED
from spark_queue.errors import LeaseLostError
from spark_queue.front.retries import Retries

logger = logging.getLogger(__name__)

#: Parts of a lease after which it is renewed.
_RENEWALS = 3


@dataclass(slots=True)
class _HeldClaim:
    """A claim, and which of its items nobody has settled."""

    claim: Claim
    lasts: timedelta
    open: set[int]
    given_up: set[int] = field(default_factory=set)
    """Items of which something was said that could not be written."""

    def is_due(self, left: timedelta) -> bool:
        """Tell whether the lease should be renewed, with so much of it left."""
        return left <= self.lasts * (_RENEWALS - 1) / _RENEWALS


class Leases:
    """The claims of one front. Changed by its one thread; anybody may ask what is live.

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
        """Tell whether an item is still held; what was lost is somebody else's."""
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

    def give_up(self, lease: int, seq: int) -> None:
        """Count an item as nobody's, though the queue has heard nothing of it yet."""
        held = self._held.get(lease)
        if held is not None and seq in held.open:
            held.open.remove(seq)
            held.given_up.add(seq)

    def free(self) -> None:
        """Release what was given up, so that it need not wait for its claim; or try again later."""
        given_up = [(lease, held) for lease, held in self._held.items() if held.given_up]
        if given_up and self._releases.is_due():
            self._releases.attempt(lambda: _do_each(partial(self._free, *one) for one in given_up))

    def _free(self, lease: int, held: _HeldClaim) -> None:
        # What is lost is free, too.
        with suppress(LeaseLostError):
            held.claim.settle_each(dict.fromkeys(sorted(held.given_up), "release"))
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
        """Renew the leases that are due; one that fails keeps no other from it."""
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
        """Release what nobody has settled."""
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
