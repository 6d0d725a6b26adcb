"""Small claims, decided by a scheduler that goes on with the rows of a replica."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

import pyarrow as pa

from spark_queue.config import QueueConfig
from spark_queue.log.heads import StatusHead
from spark_queue.log.schema import (
    CANCELLED,
    CLAIMED,
    DEAD,
    EXPIRED,
    ITEM,
    RATE,
    RENEWAL_LANE,
    TERMINAL,
)
from spark_queue.overriding import override
from spark_queue.rules.granting import REPLACED
from spark_queue.rules.pacing import Debt, moment_of
from spark_queue.rules.places import freed_at
from spark_queue.rules.rule_model import Grant, Leased
from spark_queue.rules.timing import add_loss
from spark_queue.state.open_items import LineKey, Row
from spark_queue.state.replica import Replica
from spark_queue.state.replica_rows import status_table
from spark_queue.state.request import Choice, Request, reached_by
from spark_queue.state.schedulers import (
    ReaderTerms,
    item,
    line_of,
    scheduler,
    seconds,
    without_keys,
)

#: When a lease ends that does not end by time.
_NEVER = datetime.max.replace(tzinfo=timezone.utc)

#: Open items that are looked at one by one at most: 2 KB, and 50 microseconds to begin, each.
MOST_OPEN = 50_000

#: A lease that is never granted.
_ANY = timedelta(seconds=1)

#: The error of an item that lost its lease too often.
LEASE_LOST = "lease lost"


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
            reader_config=terms.reader_config,
            keep_finished=False,
        )
        self._pause_keys()
        for (by, key), debt in replica.debts.items():
            self._scheduler.owe(by, key, debt)

    def goes_on(self, terms: ReaderTerms, now: datetime, *, spared: frozenset[int] | None) -> bool:
        """Whether this scheduler is still valid: its settings and the reader's are in force.

        Pauses of keys that changed are put in force here: to make another would cost much more.
        """
        if spared is not None and self._spared != spared:
            return False
        if self._asked is not None and self._asked > now:
            return False
        if self._terms == terms:
            return True
        settings = self._terms.settings.paused_as(terms.settings)
        if replace(self._terms, settings=settings) != terms:
            return False
        self._terms = terms
        with self._whole_or_gone():
            self._pause_keys()
        return True

    def _pause_keys(self) -> None:
        self._scheduler.pause_keys(self._terms.settings.key_ends())

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
        self._scheduler.apply([item(self._adjust(row), self._terms.reader_config)])

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


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether a claim would get or end anything, and when it may if it would not."""

    is_open: bool
    until: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen(Choice):
    """The rows that a claim would write, and the facts of them."""

    rows: list[Row]
    """Beside the columns of the log, ``_was``: the state before."""

    @override
    def table(self) -> pa.Table:
        return status_table(self.rows)

    @override
    def seqs(self) -> list[int]:
        return sorted(row["_seq"] for row in self.rows if row.get("_state") == CLAIMED)


def lapsed_leases(replica: Replica, config: QueueConfig, now: datetime) -> frozenset[int]:
    """Return the expired leases that have items in flight."""
    held = replica.items.in_flight()
    return frozenset(
        row["_lease"] for row in held if freed_at(row["_lease_expires_at"], config) <= now
    )


def choose(
    replica: Replica,
    head: StatusHead,
    terms: ReaderTerms,
    request: Request,
    now: datetime,
    after: Sequence[Row] = (),
) -> Chosen:
    """Choose the next items of a queue that is not paused, as of a step; perhaps none.

    With ``after`` it is as if these rows, which end items, were in that step.

    Raises
    ------
    TooManyItemsError
        When more items have to be looked at than a process keeps in memory.
    """
    if replica.is_empty():
        return nothing(head)
    standing = standing_of(replica, terms, head, now, spared=request.spared)
    with standing.supposing(after) if after else nullcontext():
        grant = _propose(standing, replica, head, request, now)
    common = {"_kind": ITEM, "_lease": head.step + 1, "_at": now}
    leased = {
        "_state": CLAIMED,
        "_claim_id": request.claim_id,
        "_worker_id": request.worker_id,
        "_lease_expires_at": now + request.lease,
        "_body": request.output,
    }
    said = [(item.seq, {**leased, **_turn(item)}) for item in grant.items]
    said += [(seq, {"_state": EXPIRED}) for seq in grant.expired]
    lost = {"_state": DEAD, "_error": LEASE_LOST}
    said += [
        (seq, {**lost, "_losses": add_loss(replica.items[seq]["_losses"])}) for seq in grant.dead
    ]
    said += [
        (seq, {"_state": CANCELLED, "_error": REPLACED.format(by)}) for seq, by in grant.replaced
    ]
    rows = [{**_without_lease(replica, seq), **common, **own} for seq, own in said]
    return _choice(head, rows, debt_rows(grant.debts))


def look_ahead(replica: Replica, head: StatusHead, terms: ReaderTerms, now: datetime) -> Outlook:
    """Return what a claim of a queue that is not paused has before it; errors as :func:`choose`."""
    if replica.is_empty():
        return Outlook(is_open=False, until=None)
    standing, grant = _try_one(replica, head, terms, now)
    is_open = bool(grant.items or grant.expired or grant.dead or grant.replaced)
    return Outlook(is_open, standing.next_at(grant, now))


# rule again: next event
def next_start(replica: Replica, head: StatusHead, terms: ReaderTerms, now: datetime) -> Outlook:
    """Return whether an item may start, and when the first may that a claim leaves for units.

    One that nobody holds any more, and that a claim would end, counts as one that may.
    """
    if replica.is_empty():
        return Outlook(is_open=False, until=None)
    grant = _try_one(replica, head, terms, now)[1]
    ends = (replica.items[seq]["_state"] for seq in (*grant.expired, *grant.dead))
    return Outlook(bool(grant.items) or CLAIMED in ends, grant.next_at)


def _try_one(
    replica: Replica, head: StatusHead, terms: ReaderTerms, now: datetime
) -> tuple[StandingScheduler, Grant]:
    """Propose a claim of any one item."""
    standing = standing_of(replica, terms, head, now)
    # Another run would cost a pass over all groups.
    any_one = Request(limit=1, lease=_ANY, worker_id="", run=standing.run, claim_id="")
    return standing, _propose(standing, replica, head, any_one, now)


def _propose(
    standing: StandingScheduler, replica: Replica, head: StatusHead, request: Request, now: datetime
) -> Grant:
    """Propose a claim, loading more items until it is certain."""
    wanted = request.limit
    replica.bring_before(MOST_OPEN)
    while True:
        grant = standing.propose(head, request, now)
        if grant is None:
            replica.come_nearer(wanted, MOST_OPEN)
            replica.bring_before(MOST_OPEN)
        elif not replica.bring_in_doubt(grant.in_doubt, wanted, MOST_OPEN):
            return grant
        # Most of what came may have to wait for something.
        wanted *= 2


def debt_rows(debts: Iterable[tuple[str, Hashable, Debt]]) -> list[Row]:
    """Return the rows of a status log that say what keys owe."""
    # One dictionary each, not several to be joined: a claim may charge ten thousand keys.
    return [
        {
            "_gen": RENEWAL_LANE,
            "_kind": RATE,
            "_at": moment_of(debt.at),
            "_by": by,
            "_key": key,
            "_tat": debt.tat,
            "_refunds": debt.refunds,
            "_body": str(debt.righted) if debt.righted else None,
        }
        for by, key, debt in debts
    ]


def nothing(head: StatusHead) -> Chosen:
    """Return the choice of a claim that gets nothing, and ends nothing."""
    return Chosen(rows=[], counts={}, pointers={}, width=head.width)


def _without_lease(replica: Replica, seq: int) -> Row:
    nothing = dict.fromkeys(("_claim_id", "_worker_id", "_lease_expires_at", "_error", "_turn"))
    item = replica.items[seq]
    return {**item, **nothing, "_overdue": None, "_was": item["_state"]}


def _turn(item: Leased) -> Row:
    return {"_losses": item.losses, "_turn": item.turn, "_overdue": item.overdue}


def _choice(head: StatusHead, rows: list[Row], beside: list[Row]) -> Chosen:
    counts = Counter((row["_state"], row["_was"]) for row in rows)
    claimed = (row for row in rows if row["_state"] == CLAIMED)
    pointers, width = reached_by(
        head, ((row["_priority"], row["_turn"], row["_seq"]) for row in claimed)
    )
    return Chosen(rows=[*rows, *beside], counts=counts, pointers=pointers, width=width)
