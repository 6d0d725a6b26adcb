"""The scheduler of a replica: it is told every row that counts, and proposes what comes next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone

from spark_queue.delta.replica import rules
from spark_queue.delta.replica.request import Request
from spark_queue.delta.replica.rules import ReaderTerms
from spark_queue.delta.replica.state import LineKey, Replica, Row
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import CLAIMED, TERMINAL
from spark_queue.rules import Grant

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
    ends_leases : bool
        Whether a lease ends by time. Otherwise items stay their holder's until a row moves them.
    """

    def __init__(
        self,
        replica: Replica,
        terms: ReaderTerms,
        head: StatusHead,
        *,
        ends_leases: bool = True,
    ) -> None:
        self._ends_leases = ends_leases
        self._replica = replica
        self._terms = terms
        settings = terms.settings
        self._is_fair = settings.config.fair_key is not None
        self._asked: datetime | None = None
        at = {(row["_priority"], row["_fair_key"]) for row in replica.items.values()}
        lines = [rules.line(replica, settings, line) for line in sorted(at, key=repr)]
        self._scheduler = rules.scheduler(
            # A key that is held says nothing about who comes next.
            rules.without_keys(settings.config),
            map(self._adjust, replica.items.values()),
            head.pointers,
            lines if self._is_fair else [],
            limits=terms.limits,
            keep_finished=False,
        )

    def goes_on(self, terms: ReaderTerms, now: datetime, *, ends_leases: bool) -> bool:
        """Tell whether this is still the scheduler to ask: what it was made of is in force."""
        is_same = (self._terms, self._ends_leases) == (terms, ends_leases)
        return is_same and (self._asked is None or self._asked <= now)

    def propose(self, head: StatusHead, request: Request, now: datetime) -> Grant | None:
        """Return what a claim would get as of a step; ``None`` where more has to be known."""
        self._asked = now
        with self._whole_or_gone():
            for priority, pointer in head.pointers.items():
                self._scheduler.point(priority, *pointer)
            return self._scheduler.propose_within(
                self._replica.horizon(),
                rules.seconds(now),
                request.limit,
                lease=request.lease.total_seconds(),
                run=request.run,
            )

    def put(self, row: Row) -> None:
        """Follow an item to where a row says that it is."""
        if row["_state"] in TERMINAL:
            # What ends an item need not say what it was.
            self._scheduler.apply([{"seq": row["_seq"], "state": row["_state"]}])
            return
        if self._is_fair:
            at = (row["_priority"], row["_fair_key"])
            line = rules.line(self._replica, self._terms.settings, at)
            self._scheduler.open_line(line[0], line[1:])
        self._scheduler.apply([rules.item(self._adjust(row), self._terms.limits)])

    def serve(self, line: LineKey, turn: float, *, overdue: bool) -> None:
        """Note a turn that was handed out."""
        if self._is_fair:
            self._scheduler.serve(*line, turn, overdue=overdue)

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
        if self._ends_leases or row["_state"] != CLAIMED:
            return row
        return {**row, "_lease_expires_at": _NEVER}

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
    ends_leases: bool = True,
) -> StandingScheduler:
    """Return the scheduler of a replica; make one where there is none, or it cannot go on."""
    known = replica.follower
    if isinstance(known, StandingScheduler) and known.goes_on(terms, now, ends_leases=ends_leases):
        return known
    made = StandingScheduler(replica, terms, head, ends_leases=ends_leases)
    replica.follower = made
    return made
