"""Small settles and renewals: the verdict of a lease's holder on its items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pyarrow as pa

from spark_queue.config import QueueConfig
from spark_queue.log.schema import DEAD, ITEM, READY
from spark_queue.rules.outcomes import ItemTries, become
from spark_queue.rules.rule_model import Ack, Dead, Defer, Nack, Outcome, Release
from spark_queue.rules.scheduler_state import is_held_by
from spark_queue.rules.timing import add_loss, last_loss
from spark_queue.saying import Said
from spark_queue.state import schedulers
from spark_queue.state.open_items import Row
from spark_queue.state.replica import Replica
from spark_queue.state.replica_rows import status_table
from spark_queue.state.schedulers import ReaderTerms, max_attempts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SaidT = TypeVar("_SaidT", bound=Said)

#: The verdict on a dead worker's item.
LOSE = "lose"

#: The error noted then.
GONE = "its worker ended, or its lease ran out"

#: What is said of an item, to the rules.
_OUTCOMES: Mapping[str, Callable[[Said], Outcome]] = {
    "ack": lambda _: Ack(),
    "nack": lambda said: Nack(said.error, _seconds(said.after)),
    "defer": lambda said: Defer(_seconds(said.after) or 0.0, said.error),
    "release": lambda said: Release(said.is_begun),
    "dead": lambda said: Dead(said.error),
}

#: What an item keeps of a claim no longer when that is over.
_ENDED: Row = dict.fromkeys(("_available_at", "_lease_expires_at", "_turn", "_overdue"))


@dataclass(frozen=True, slots=True)
class SettleFacts:
    """What becomes of the items of a settle."""

    counts: Mapping[str, int]
    """Items by the state that they go to."""
    lost: tuple[int, ...]
    """Items that are not the holder's any more; the first thousand where there are more."""
    failed: int = 0
    """Of the items that are ready again, the failed ones."""
    deferred: int = 0
    """Of them, those that wait as their holder says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(SettleFacts):
    """The rows that a settle would write, and the facts of them."""

    rows: list[Row]

    def table(self) -> pa.Table:
        """Return the rows as they are logged."""
        return status_table(self.rows)

    def total(self) -> int:
        """Return how many rows would be written."""
        return len(self.rows)

    def without_lease(self) -> Judged:
        """Return the rows without their lease: a holder that comes back sees a loss."""
        return replace(self, rows=[{**row, "_lease": None} for row in self.rows])


@dataclass(frozen=True, slots=True)
class KnownLease:
    """A lease that a process remembers, and by what the items of it are judged."""

    replica: Replica
    lease: int
    terms: ReaderTerms
    """The settings in force, and what the reader allows."""
    now: datetime

    @property
    def left(self) -> list[int]:
        """The items that the holder has not settled yet."""
        return sorted(self.replica.grants[self.lease].left)

    def still_held(self, seqs: Iterable[int]) -> dict[int, Row]:
        """Return those of some items that the lease still holds."""
        found = ((seq, find_held(self.replica, self.lease, seq)) for seq in seqs)
        return {seq: row for seq, row in found if row is not None}

    def judge(self, said: Said | Mapping[int, Said]) -> Judged:
        """Judge items: by one outcome for all that is left, or one for each of some."""
        if isinstance(said, Said):
            said = dict.fromkeys(self.left, said)
        held, rows = self.still_held(said), []
        for seq, row in held.items():
            is_lost, error = said[seq].outcome == LOSE, said[seq].error
            after = _lose(row, self.terms.judging) if is_lost else self._after(row, said[seq])
            rows.append({**row, **_ENDED, "_kind": ITEM, "_at": self.now, "_error": error, **after})
        return _judgement(rows, tuple(sorted(set(said) - set(held))), said)

    def _after(self, row: Row, said: Said) -> Row:
        """Return an item's state after an outcome; only a failure or a deferral makes it wait."""
        most, deferrals = max_attempts(row, self.terms.reader_config), row["_deferrals"] or 0
        tries = ItemTries(row["_seq"], row["_attempts"], deferrals, most, None)
        outcome = _OUTCOMES[said.outcome](said)
        became = become(tries, outcome, self.terms.judging, schedulers.seconds(self.now))
        after: Row = {"_state": became.state, "_attempts": became.attempts}
        if became.deferrals > deferrals:
            after |= {"_deferrals": became.deferrals, "_error": became.error}
        if became.available_at is not None:
            after["_available_at"] = datetime.fromtimestamp(became.available_at, timezone.utc)
        return after

    # rule again: renewal of a lease
    def renew(self, by: timedelta) -> Judged:
        """Renew the lease for its items in flight."""
        held = self.still_held(self.left)
        until = {"_kind": ITEM, "_at": self.now, "_lease_expires_at": self.now + by}
        rows = [{**row, **until} for row in held.values()]
        return _judgement(rows, tuple(seq for seq in self.left if seq not in held), {})


def find_held(replica: Replica, lease: int, seq: int) -> Row | None:
    """Return an item if the lease still holds it."""
    row = replica.items.get(seq)
    mine = row is not None and is_held_by(lease, row["_state"], row["_lease"])
    return row if mine else None


def _seconds(after: timedelta | None) -> float | None:
    return None if after is None else after.total_seconds()


def _lose(row: Row, config: QueueConfig) -> Row:
    """Return what becomes of an item that cost the worker of its holder its life."""
    losses = row["_losses"]
    return {
        "_state": DEAD if losses >= last_loss(config.max_losses) else READY,
        "_losses": add_loss(losses),
    }


def _judgement(rows: list[Row], lost: tuple[int, ...], said: Mapping[int, Said]) -> Judged:
    counts = Counter(row["_state"] for row in rows)
    back = [said[row["_seq"]].outcome for row in rows if row["_state"] == READY]
    deferred = back.count("defer")
    failed = len(back) - back.count("release") - deferred
    return Judged(counts, lost, failed, deferred, rows=rows)


#: How many lost items an error names.
NAMED = 1_000

#: Outcomes up to which a frame of them is brought here.
_FEW = 5_000


class Every(Said):
    """One outcome for all unsettled items of a claim."""

    __slots__ = ()

    def judge(self, lease: KnownLease) -> Judged:
        """Make the rows of a settle."""
        return lease.judge(self)


@dataclass(frozen=True, slots=True)
class Each:
    """The outcomes of a frame: ``_seq``, ``outcome``, ``error``, ``after``; already staged.

    How long an item waits is in microseconds.
    """

    outcomes: DataFrame
    pausing: Mapping[int, Said] = field(default_factory=dict)
    """What of it asks for a pause of a key."""

    def judge(self, lease: KnownLease) -> Judged | None:
        """Make the rows of a settle; ``None`` for a large frame."""
        said = self.outcomes.select("_seq", "outcome", "error", "after").limit(_FEW + 1).collect()
        if len(said) > _FEW:
            return None
        outcomes = {seq: Said.of(outcome, error, after) for seq, outcome, error, after in said}
        return lease.judge(outcomes)


@dataclass(frozen=True, slots=True)
class Some:
    """Outcomes of some items, by seq."""

    outcomes: Mapping[int, Said]

    def judge(self, lease: KnownLease) -> Judged:
        """Make the rows of a settle."""
        return lease.judge(self.outcomes)


@dataclass(frozen=True, slots=True)
class Renewed:
    """A lease extended for all that is left of a claim, counted from now."""

    by: timedelta
    progress: Mapping[int, tuple[float, str | None]] = field(default_factory=dict)
    """How far the work on items is, as their handlers say."""

    def judge(self, lease: KnownLease) -> Judged:
        """Make the rows of a renewal."""
        return lease.renew(self.by)


@dataclass(frozen=True, slots=True)
class ByARescuer:
    """A verdict without a lease in its rows, so that a late holder sees a loss.

    Only of items whose holder is ``which``: the others are their holder's. Without it, of all that
    the verdict is about.
    """

    verdict: Verdict
    which: Gone | None = None

    def judge(self, lease: KnownLease) -> Judged | None:
        """Make the rows of a settle without a worker; ``None`` where a planner has to."""
        found = self.verdict.judge(lease) if self.which is None else None
        return found and found.without_lease()


@dataclass(frozen=True, slots=True)
class Gone:
    """Rest of the claims of dead workers: lost, without a worker id."""

    lapsed_by: datetime
    """Whose lease ended by then is gone."""
    ended: frozenset[str]
    """Workers of processes that have ended are, too."""
    losses: int = 0
    """Only of items that were lost so often before."""
    is_sure: bool = False
    """Whether all are gone, even if their leases or processes say otherwise."""

    # rule: end of a worker
    def has(self, row: Row) -> bool:
        """Whether an item's holder is dead."""
        is_lapsed = row["_lease_expires_at"] <= self.lapsed_by
        is_gone = self.is_sure or is_lapsed or row["_worker_id"] in self.ended
        return is_gone and row["_losses"] >= self.losses

    def judge(self, lease: KnownLease) -> Judged:
        """Make the rows that settle lost items, without the lease: its holder sees a loss."""
        held = lease.still_held(lease.left)
        said = {seq: Said(LOSE, GONE) for seq, row in held.items() if self.has(row)}
        return lease.judge(said).without_lease()


#: The verdict on the items of a lease.
Verdict: TypeAlias = Every | Each | Some | Renewed | ByARescuer | Gone


def charge_deferrals(verdict: Verdict) -> Verdict:
    """Return a verdict for a queue that counts no deferrals: there each is a failure."""
    if isinstance(verdict, ByARescuer):
        return replace(verdict, verdict=charge_deferrals(verdict.verdict))
    if isinstance(verdict, Every):
        return _charge(verdict)
    if isinstance(verdict, Each):
        outcomes = verdict.outcomes.replace({"defer": "nack"}, subset=["outcome"])
        return replace(verdict, outcomes=outcomes)
    if isinstance(verdict, Some):
        return Some({seq: _charge(one) for seq, one in verdict.outcomes.items()})
    return verdict


def _charge(said: _SaidT) -> _SaidT:
    return said._replace(outcome="nack") if said.outcome == "defer" else said


def pausing_of(verdict: Verdict) -> Mapping[int, Said] | Said | None:
    """Return the outcomes that ask for the pause of a key; of each item, or of all."""
    if isinstance(verdict, Some):
        return {seq: one for seq, one in verdict.outcomes.items() if one.pause is not None}
    if isinstance(verdict, Each):
        return verdict.pausing
    if isinstance(verdict, Every) and verdict.pause is not None:
        return verdict
    return None


def unbegun_of(verdict: Verdict) -> list[int] | None:
    """Return the items that a holder says were not begun; ``None`` for all.

    Of a frame they are none where it has more than are brought here.
    """
    if isinstance(verdict, ByARescuer):
        return unbegun_of(verdict.verdict)
    if isinstance(verdict, Some):
        return [seq for seq, one in verdict.outcomes.items() if not one.is_begun]
    if isinstance(verdict, Every) and not verdict.is_begun:
        return None
    if not isinstance(verdict, Each) or "together" not in verdict.outcomes.columns:
        return []
    found = verdict.outcomes.where("together = 0").select("_seq").limit(_FEW + 1).collect()
    return [row[0] for row in found] if len(found) <= _FEW else []


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSettle(SettleFacts):
    """Rows that a settle would write, computed but not committed, and the facts of them."""

    rows: DataFrame | pa.Table
    row_count: int | None = None
    """How many rows say it, where that is not one for each item."""

    def total(self) -> int:
        """Return how many rows would be written."""
        return sum(self.counts.values()) if self.row_count is None else self.row_count
