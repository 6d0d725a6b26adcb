"""Verdicts on the items of a lease, and their settle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from spark_queue.state import settle_decision
from spark_queue.state.replica import Replica, Row
from spark_queue.state.schedulers import ReaderTerms
from spark_queue.state.settle_decision import Judged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What a holder may say of an item.
OUTCOMES = ("ack", "nack", "release", "dead")

#: How many lost items an error names.
NAMED = 1_000

#: Outcomes up to which a frame of them is brought here.
_FEW = 5_000


@dataclass(frozen=True, slots=True)
class Every:
    """One outcome for all unsettled items of a claim."""

    outcome: str
    error: str | None = None

    def judge(
        self, replica: Replica, lease: int, terms: ReaderTerms, now: datetime
    ) -> Judged | None:
        """Make the rows of a settle from a replica; ``None`` if a planner must."""
        return settle_decision.judge(replica, lease, (self.outcome, self.error), terms, now)


@dataclass(frozen=True, slots=True)
class Each:
    """The outcomes of a frame: ``_seq``, ``outcome``, ``error``; already staged."""

    outcomes: DataFrame

    def judge(
        self, replica: Replica, lease: int, terms: ReaderTerms, now: datetime
    ) -> Judged | None:
        """Make the rows of a settle; ``None`` for a large frame or an unknown lease."""
        if lease not in replica.grants:
            return None
        said = self.outcomes.select("_seq", "outcome", "error").limit(_FEW + 1).collect()
        if len(said) > _FEW:
            return None
        outcomes = {row["_seq"]: (row["outcome"], row["error"]) for row in said}
        return settle_decision.judge(replica, lease, outcomes, terms, now)


@dataclass(frozen=True, slots=True)
class Some:
    """Outcomes of some items, each with its error, by seq."""

    outcomes: Mapping[int, tuple[str, str | None]]

    def judge(
        self, replica: Replica, lease: int, terms: ReaderTerms, now: datetime
    ) -> Judged | None:
        """Make the rows of a settle; ``None`` where a planner has to."""
        return settle_decision.judge(replica, lease, self.outcomes, terms, now)


@dataclass(frozen=True, slots=True)
class Renewed:
    """A lease extended for all that is left of a claim, counted from now."""

    by: timedelta

    def judge(
        self,
        replica: Replica,
        lease: int,
        terms: ReaderTerms,  # noqa: ARG002
        now: datetime,
    ) -> Judged | None:
        """Make the rows of a renewal; ``None`` where a planner has to."""
        return settle_decision.renew(replica, lease, self.by, now)


@dataclass(frozen=True, slots=True)
class ByARescuer:
    """A verdict without a lease in its rows, so that a late holder sees a loss.

    Only of items whose holder is ``which``: the others are their holder's. Without it, of all that
    the verdict is about.
    """

    verdict: Verdict
    which: Gone | None = None

    def judge(
        self, replica: Replica, lease: int, terms: ReaderTerms, now: datetime
    ) -> Judged | None:
        """Make the rows of a settle without a worker; ``None`` where a planner has to."""
        if self.which is not None:
            return None
        found = self.verdict.judge(replica, lease, terms, now)
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

    def judge(
        self, replica: Replica, lease: int, terms: ReaderTerms, now: datetime
    ) -> Judged | None:
        """Make the rows that settle lost items; ``None`` where a planner has to."""
        return settle_decision.judge_lost(replica, lease, self.has, terms, now)


#: The verdict on the items of a lease.
Verdict: TypeAlias = Every | Each | Some | Renewed | ByARescuer | Gone


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSettle:
    """Rows that a settle would write, computed but not committed, and the facts of them."""

    rows: DataFrame | pa.Table
    counts: Mapping[str, int]
    """Items by the state they would go to."""
    lost: tuple[int, ...]
    """Items that are no longer held; the first thousand where there are more."""
    failed: int
    """Of the items that would be ready again, the failed ones."""
    is_one_row: bool = False
    """Whether one row says it of all items."""

    def total(self) -> int:
        """Return how many rows would be written."""
        return 1 if self.is_one_row else sum(self.counts.values())
