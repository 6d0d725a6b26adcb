"""Length of claims, and of the runs of a group that they take."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from spark_queue.claim import Claim
from spark_queue.commands.claims import new_claim_id
from spark_queue.commands.settle import SettledStep
from spark_queue.log.schema import TERMINAL
from spark_queue.state.request import Request
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
