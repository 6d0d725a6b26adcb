"""Length of the next claim: as many items as take a target time, and runs that are worked off."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from datetime import timedelta
from typing import NamedTuple

from spark_queue.claim import Claim
from spark_queue.commands.claims import new_claim_id
from spark_queue.commands.settle import SettledStep
from spark_queue.config import QueueConfig
from spark_queue.flow import least_gaps
from spark_queue.log.heads import ClaimSize, SizeReason, StatusHead
from spark_queue.log.schema import CHAINED, TERMINAL
from spark_queue.processing.claim_parts import RENEWALS
from spark_queue.state.request import Request
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store

#: How fast runs grow while nothing goes back, and at most when something does.
_FASTEST, _FAST = 4.0, 2.0

#: One claim does not make runs shorter than this, or than half: the next may do better.
_SHORT = 100.0

#: Items that may go back for each one that is done. More means more rows.
_BACK = 0.7

#: How fast claims grow that take less than their target time. The first ones say little of others.
_GROWTH = 512

#: Claims that each worker makes, of what waits, while others work: none of them is last for long.
_SHARES = 2

#: The least share, as a part of what takes the target time: less is not worth a claim.
_LEAST = 1 / 20

#: Claims after which a way to the handler that became longer, by a target time, is the usual one.
_SLOWLY = 10

#: Claims of which the quickest says how long an item takes to be read: the others were held up.
_TOLD = 3

#: How much of that a claim of one item leaves, which tells nothing: longer ones are tried again.
_FADING = 0.95


class Lengths(NamedTuple):
    """How many items a claim takes."""

    whole: float
    run: float
    """How many of one group."""


# rule: calls at a rate
def begin_within(request: Request, config: QueueConfig) -> timedelta | None:
    """Return the time in which the items of a claim are to begin; ``None`` for any time.

    Where items start by a rate, what a claim takes counts as started. So a hand begins it within
    the time of one unit, and the calls of a window are at most one for each hand more than starts.
    """
    gaps = [] if request.hands is None else least_gaps(config)
    return min((time for time in (request.target, *gaps) if time is not None), default=None)


class Way:
    """How long it takes from a claim to its handler: some time, and some for each item to be read.

    A claim that was held up says too much of both, and nothing says too little.
    """

    def __init__(self) -> None:
        self._usual = math.inf
        self._told = deque[float](maxlen=_TOLD)

    @property
    def each(self) -> timedelta:
        """How long an item takes to be read, as far as several claims have told."""
        return timedelta(seconds=min(self._told) if len(self._told) == _TOLD else 0)

    def note(self, count: int, took: timedelta, target: timedelta) -> timedelta:
        """Return what is usual, without the items, after a claim of so many took so long."""
        seconds = took.total_seconds()
        if seconds < 0:
            # The clock was set back: that tells nothing, and a way of no time would be kept long.
            return timedelta(seconds=self._usual if self._usual < math.inf else 0)
        if count > 1 and self._usual < math.inf:
            self._told.append(max(seconds - self._usual, 0) / count)
        else:
            self._told.extend([one * _FADING for one in self._told])
        rest = max(seconds - count * self.each.total_seconds(), 0)
        self._usual = min(rest, self._usual + target.total_seconds() / _SLOWLY)
        return timedelta(seconds=self._usual)


class ClaimLength:
    """How long the claims of a handler are, as earlier ones taught.

    Where its items are to begin within a time, a claim is as many as were worked off in so long,
    and one for each hand at least; while others hold claims, at most a share of what waits.
    Otherwise it is as many as the request says, or fewer where some of those went back for time.

    Of a group it is about as many as it will work off. An item that is claimed and goes back costs
    two rows, and so does one that is done. So runs grow while they are worked off, and shrink while
    more goes back than is done. A run is also to end before its lease is renewed: in older formats
    a renewal is a row for each item.

    Lengths are known to this process, for all that process items of this reader.

    Parameters
    ----------
    store : Store
        The queue, as its reader sees it.
    request : Request
        What claims ask for; none is longer than its limit, and no run longer than its run.
    handler : str
        The name of the handler. Each has a length of its own.
    first : int
        How many items the first claim has that has a target time, where no rate is.
    """

    def __init__(self, store: Store, request: Request, handler: str, first: int) -> None:
        self._store = store
        self._request = request
        self._known = store.position()
        self._handler = handler
        self._first = first
        self._hands = request.hands or 1

    @property
    def known(self) -> Lengths:
        """The lengths of the next claim, while nobody else works on the queue."""
        whole = self._known.claim_lengths.get(self._key, self._begin())
        return Lengths(whole, self._known.run_length)

    @property
    def _key(self) -> tuple[str, timedelta | None]:
        return self._handler, self._target

    @property
    def _target(self) -> timedelta | None:
        """How long the items of a claim are to take, by the settings in force."""
        head = self._known.status.head or self._store.status_head()
        return begin_within(self._request, self._store.settings(head, self._known).config)

    def _begin(self) -> float:
        target = self._target
        if target is None:
            return math.inf
        return float(max(self._first if target == self._request.target else 1, self._hands))

    def learn(self, lengths: Lengths) -> None:
        """Keep lengths for the next claims."""
        self._known.claim_lengths[self._key] = lengths.whole
        if self._request.run > 1:
            self._known.run_length = max(1.0, lengths.run)

    def request(self, lengths: Lengths | None = None, held: Claim | None = None) -> Request:
        """Return what the next claim asks for.

        Parameters
        ----------
        lengths : Lengths, optional
            How long it is; the known lengths by default.
        held : Claim, optional
            The claim that will be settled by then.
        """
        whole, run = lengths or self.known
        why: SizeReason = "measured"
        if lengths is None and self._key not in self._known.claim_lengths:
            why = "first"
        if self._target is not None and (share := self._share(held)) < whole:
            whole, why = max(share, whole * _LEAST), "share"
        if self._request.limit < whole:
            whole, why = self._request.limit, "limit"
        most = max(1, int(whole))
        return replace(
            self._request,
            claim_id=new_claim_id(),
            limit=most,
            run=max(1, min(self._request.run, int(run))),
            size=self._size(most, why),
        )

    def _size(self, most: int, why: SizeReason) -> ClaimSize | None:
        """Return why a claim has at most so many items; ``None`` where the queue cannot say it."""
        target = self._target
        if target is None or Snapshot(self._store).settings.format < CHAINED:
            return None
        return ClaimSize(most=most, why=why, seconds=target.total_seconds())

    def after(self, claim: Claim, seconds: float, done: SettledStep | None = None) -> Lengths:
        """Return the lengths after a claim.

        Parameters
        ----------
        claim : Claim
            It is settled, or will be.
        seconds : float
            How long its handler took.
        done : SettledStep, optional
            What became of it; by default nothing of it goes back.
        """
        worked = max(1.0, claim.count - (0 if done is None else done.released))
        took = self._store.clock.now() - claim.claimed_at
        in_time = took < (self._target or self._request.lease / RENEWALS)
        is_cut = worked < claim.count and not in_time
        return Lengths(
            self._whole_after(worked, seconds, is_cut=is_cut), self._run_after(claim, done)
        )

    # rule: length of a claim
    def _whole_after(self, worked: float, seconds: float, *, is_cut: bool) -> float:
        """Return the length after a claim of which so many items were worked off in some seconds.

        A claim is cut where the rest went back for time.
        """
        target, known = self._target, self.known.whole
        if target is None:
            return worked if is_cut else max(known, _FAST * worked)
        times = max(seconds / target.total_seconds(), 1e-9)
        fitting = max(float(self._hands), worked / times)
        if is_cut or times >= 1:
            return max(float(self._hands), min(worked, fitting))
        return max(known, min(fitting, _GROWTH * worked))

    def _share(self, held: Claim | None) -> float:
        """Return how much of what waits is one worker's, as far as this process has seen others."""
        at = Snapshot(self._store)
        queue, status = at.cache.queue.head, at.position.status.head
        if queue is None or status is None:
            return math.inf
        others = self._count_others(status, held)
        left = queue.items - at.registered().since_items - sum(status.finished.values())
        return math.inf if not others else (left - status.claimed) / (_SHARES * (1 + others))

    def _count_others(self, status: StatusHead, held: Claim | None) -> int:
        """Return how many others hold claims; of a large queue, whether any do."""
        replica = self._known.replica
        if replica is None:
            return int(status.claimed > (0 if held is None else held.count))
        mine = None if held is None else held.lease
        return sum(bool(grant.left) and lease != mine for lease, grant in replica.grants.items())

    def _run_after(self, claim: Claim, done: SettledStep | None) -> float:
        """Return the length of runs after a claim."""
        known = self._known.run_length
        longest = min(known, self._request.run, claim.count)
        in_time = self._run_in_time(claim, longest)
        back = 0 if done is None else done.released
        if done is None or back == 0:
            return in_time if in_time < longest else max(known, min(_FASTEST * longest, in_time))
        finished = sum(n for state, n in done.counts.items() if state in TERMINAL)
        wanted = min(_BACK * finished / back, _FAST) * longest
        return min(max(wanted, min(longest / 2, _SHORT)), in_time)

    def _run_in_time(self, claim: Claim, longest: float) -> float:
        """Return how many items of a group are worked off before a lease is renewed."""
        if claim.count == self._request.limit > longest:
            # It took the time of other items, and there is no room for longer runs.
            return self._known.run_length
        took = max(self._store.clock.now() - claim.claimed_at, timedelta.resolution)
        # What a claim takes by itself may be longer, and is no reason for ever shorter runs.
        return max(longest * (self._request.lease / RENEWALS / took), min(longest, _SHORT))
