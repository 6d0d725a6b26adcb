"""A scheduler made from a replica that stands by, and follows its rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone

from spark_queue.log.heads import StatusHead
from spark_queue.log.schema import CLAIMED, TERMINAL
from spark_queue.rules import Grant
from spark_queue.rules.pacing import Debt
from spark_queue.state.open_items import Row
from spark_queue.state.replica import Replica
from spark_queue.state.request import Request
from spark_queue.state.schedulers import (
    ReaderTerms,
    item,
    line_of,
    scheduler,
    seconds,
    without_keys,
)
from spark_queue.state.window import LineKey

#: When a lease ends that does not end by time.
_NEVER = datetime.max.replace(tzinfo=timezone.utc)


class StandingScheduler:
    """A scheduler that goes on with the rows of a replica.

    To make one costs a pass over all open items; a claim from it costs what it gets. It proposes,
    and knows of its own proposals only what comes back as rows.

    Parameters
    ----------
    replica : Replica
        The state of a reader. It tells what it applies from then on.
    terms : ReaderTerms
        The settings in force, and what the reader allows.
    head : StatusHead
        The head of the newest step.
    spared : frozenset of int
        Leases that do not end by time: their items stay their holder's until a row moves them.
    """

    def __init__(
        self,
        replica: Replica,
        terms: ReaderTerms,
        head: StatusHead,
        *,
        spared: frozenset[int] = frozenset(),
    ) -> None:
        self._spared = spared
        self._replica = replica
        self._terms = terms
        settings = terms.settings
        self._is_fair = settings.config.fair_key is not None
        self._asked: datetime | None = None
        self.run = 1
        """The run of the last claim."""
        at = {(row["_priority"], row["_fair_key"]) for row in replica.items.values()}
        lines = [line_of(replica, settings, line) for line in sorted(at, key=repr)]
        self._scheduler = scheduler(
            # A key that is held says nothing about who comes next.
            without_keys(settings.config),
            map(self._adjust, replica.items.values()),
            head.pointers,
            lines if self._is_fair else [],
            limits=terms.limits,
            keep_finished=False,
        )
        self._pause_keys()
        for (by, key), debt in replica.debts.items():
            self._scheduler.owe(by, key, debt)

    def goes_on(self, terms: ReaderTerms, now: datetime, *, spared: frozenset[int] | None) -> bool:
        """Whether this scheduler is still valid: its settings and limits are in force.

        Pauses of keys that changed are put in force here: to make another would cost much more.
        """
        if spared is not None and self._spared != spared:
            return False
        if self._asked is not None and self._asked > now:
            return False
        if self._terms == terms:
            return True
        if not self._terms.differs_in_pauses(terms):
            return False
        self._terms = terms
        with self._whole_or_gone():
            self._pause_keys()
        return True

    def _pause_keys(self) -> None:
        pauses = self._terms.settings.pauses
        self._scheduler.pause_keys(
            {(p.by, p.key): math.inf if p.until is None else seconds(p.until) for p in pauses}
        )

    def propose(self, head: StatusHead, request: Request, now: datetime) -> Grant | None:
        """Return the proposal of a claim as of a step; ``None`` if it needs more items."""
        self._asked, self.run = now, request.run
        with self._whole_or_gone():
            for priority, pointer in head.pointers.items():
                self._scheduler.point(priority, *pointer)
            return self._scheduler.propose_within(
                self._replica.horizon(),
                seconds(now),
                request.limit,
                lease=request.lease.total_seconds(),
                run=request.run,
            )

    # rule again: next event
    def next_at(self, grant: Grant, now: datetime) -> float | None:
        """Return when time alone may let start what a proposal that is not full has not."""
        timed = self._scheduler.next_event_at(seconds(now), by_rates=False)
        return min((at for at in (timed, grant.next_at) if at is not None), default=None)

    def put(self, row: Row) -> None:
        """Follow an item to where a row says that it is."""
        if row["_state"] in TERMINAL:
            # What ends an item need not say what it was.
            self._scheduler.apply([{"seq": row["_seq"], "state": row["_state"]}])
            return
        if self._is_fair:
            at = (row["_priority"], row["_fair_key"])
            line = line_of(self._replica, self._terms.settings, at)
            self._scheduler.open_line(line[0], line[1:])
        self._scheduler.apply([item(self._adjust(row), self._terms.limits)])

    def serve(self, line: LineKey, turn: float, *, overdue: bool) -> None:
        """Note a turn that was handed out."""
        if self._is_fair:
            self._scheduler.serve(*line, turn, overdue=overdue)

    def owe(self, by: str, key: str, debt: Debt) -> None:
        """Note what a key of a rate owes."""
        self._scheduler.owe(by, key, debt)

    @contextmanager
    def supposing(self, rows: Sequence[Row]) -> Iterator[None]:
        """Follow rows that are no step yet, for a while."""
        with self._whole_or_gone():
            for row in rows:
                self.put(row)
            yield
            for row in rows:
                self.put(self._replica.items[row["_seq"]])

    def _adjust(self, row: Row) -> Row:
        """Return a row as it counts here."""
        if row["_state"] == CLAIMED and row["_lease"] in self._spared:
            return {**row, "_lease_expires_at": _NEVER}
        return row

    @contextmanager
    def _whole_or_gone(self) -> Iterator[None]:
        """Give this scheduler up where something ends half way, as an interrupt does."""
        try:
            yield
        except BaseException:
            self._replica.follower = None
            raise


def standing_of(
    replica: Replica,
    terms: ReaderTerms,
    head: StatusHead,
    now: datetime,
    *,
    spared: frozenset[int] | None = None,
) -> StandingScheduler:
    """Return a replica's scheduler, making one where the last cannot go on.

    It spares the leases that are said, or else those that it did.
    """
    known = replica.follower
    if isinstance(known, StandingScheduler) and known.goes_on(terms, now, spared=spared):
        return known
    made = StandingScheduler(replica, terms, head, spared=spared or frozenset())
    replica.follower = made
    return made
