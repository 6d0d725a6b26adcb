"""Claims as Spark chooses them: the rows to log, and what was granted before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timezone

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.plans import candidates
from spark_queue.delta.plans.candidates import StagedClaim, counted
from spark_queue.delta.replica.claiming import LEASE_LOST
from spark_queue.delta.replica.request import Choice, GrantedClaim, Request
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables import recent
from spark_queue.delta.tables.describing import named
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import CLAIMED, DEAD, ITEM, READY, SCHEDULE
from spark_queue.delta.tables.settings import Settings
from spark_queue.delta.verdicts import StagedSettle


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClaim(Choice):
    """The items that Spark has chosen as of a step, and who asked for them."""

    stage: StagedClaim
    request: Request
    now: datetime
    step: int
    """The step that would write them."""

    @classmethod
    def of(
        cls, stage: StagedClaim, head: StatusHead, request: Request, now: datetime
    ) -> PlannedClaim:
        """Return what was chosen as of a step for a request."""
        return cls(
            counts=stage.counts,
            pointers=stage.pointers,
            width=stage.width,
            stage=stage,
            request=request,
            now=now,
            step=head.step + 1,
        )

    def table(self) -> DataFrame:
        """See :class:`Choice`."""
        return _rows(self.stage, self.request, self.now, self.step)

    def without(self, head: StatusHead, seqs: Collection[int]) -> PlannedClaim:
        """See :class:`Choice`."""
        left = candidates.without(self.stage, head, seqs)
        return self.of(left, head, self.request, self.now)


class SparkChooser:
    """What Spark chooses for a claim: carried over the steps to which a try was lost."""

    def __init__(self, store: Store, request: Request, now: datetime) -> None:
        self.store = store
        self._request = request
        self._now = now
        self._stage: StagedClaim | None = None
        self._basis: StatusHead | None = None

    @named("claim")
    def at(self, head: StatusHead, settings: Settings) -> PlannedClaim | None:
        """Choose as of a step; ``None`` where there is nothing to write."""
        stage = _rebased(self.store, self._basis, head, settings, self._stage)
        if stage is None or stage.total() == 0:
            stage = candidates.staged(self.store, head, settings, self._request, self._now)
        self._stage, self._basis = stage, head
        return None if stage is None else PlannedClaim.of(stage, head, self._request, self._now)


def chosen_after(
    store: Store,
    head: StatusHead,
    done: StagedSettle,
    settled: StatusHead,
    request: Request,
    now: datetime,
) -> tuple[PlannedClaim, DataFrame] | None:
    """Choose as if a settle were logged; return the rows of both as well."""
    rows = store.recent(head).unionByName(recent.of_step(done.rows, head.step + 1))
    stage = candidates.staged(store, settled, store.settings(head), request, now, rows)
    if stage is None:
        return None
    chosen = PlannedClaim.of(stage, settled, request, now)
    return chosen, chosen.table().unionByName(done.rows, allowMissingColumns=True)


def _rows(stage: StagedClaim, request: Request, now: datetime, step: int) -> DataFrame:
    """Return the rows of a stage as they are logged in a step."""
    leased = F.col("_state") == CLAIMED
    dead = F.col("_state") == DEAD
    lost = ((leased | dead) & (F.col("_was") == CLAIMED)).cast("int")
    error = F.when(dead, LEASE_LOST)
    columns: dict[str, Column] = {
        "_kind": F.lit(ITEM),
        "_lease": F.lit(step).cast("long"),
        "_losses": F.col("_losses") + lost,
        "_claim_id": F.when(leased, request.claim_id),
        "_worker_id": F.when(leased, request.worker_id),
        "_at": F.lit(now),
        "_lease_expires_at": F.when(leased, F.lit(now + request.lease)),
        "_error": error,
        # Whoever finds the lease run out asks there what was done.
        "_body": F.when(leased, request.output),
    }
    names = ["_seq", "_gen", "_state", "_attempts", "_losses", "_turn", "_overdue", *SCHEDULE]
    return stage.rows.select(*names, "_was").withColumns(columns).drop("_was")


def _rebased(
    store: Store,
    basis: StatusHead | None,
    head: StatusHead,
    settings: Settings,
    stage: StagedClaim | None,
) -> StagedClaim | None:
    """Carry a stage over the steps that came between, or ``None`` where it must be made again.

    Items that those steps name leave the stage, and so does the rest of its group: a claim may have
    filled it, and a returned item goes first. Other settles only free things.
    """
    if basis is None or stage is None:
        return None
    if basis.config_step != head.config_step or settings.config.max_in_flight is not None:
        return None
    between = (
        store.status.read()
        .where(
            (F.col("_kind") == ITEM) & (F.col("_step") > basis.step) & (F.col("_step") <= head.step)
        )
        .localCheckpoint()
    )
    left = stage.rows.join(between.select("_seq"), "_seq", "left_anti")
    moved = between.where(F.col("_state").isin(CLAIMED, READY)).select("_group_key")
    left = left.join(moved.where("_group_key is not null"), "_group_key", "left_anti")
    return counted(head, left.localCheckpoint())


def granted(store: Store, claim_id: str) -> GrantedClaim | None:
    """Return the newest claim that was granted under an id, as the log has it."""
    log = store.status.read().where(F.col("_kind") == ITEM)
    mine = log.where((F.col("_claim_id") == claim_id) & (F.col("_state") == CLAIMED))
    claims = mine.where(F.col("_lease") == F.col("_step")).groupBy("_step")
    found = claims.agg(F.count(F.lit(1)), F.max("_at"), F.max("_lease_expires_at"))
    row = found.orderBy(F.desc("_step")).head()
    if row is None or _given_back(log, row[0]) == row[1]:
        return None
    return GrantedClaim(
        step=row[0],
        count=row[1],
        claim_id=claim_id,
        claimed_at=row[2].astimezone(timezone.utc),
        lease_expires_at=row[3].astimezone(timezone.utc),
    )


def _given_back(log: DataFrame, lease: int) -> int:
    """Return how many items of a claim were next made ready without a worker id."""
    is_of_claim = (F.col("_state") == CLAIMED) & (F.col("_lease") == lease)
    granted = log.where(is_of_claim & (F.col("_step") == lease)).select("_seq")
    later = log.where((F.col("_step") > lease) & ~F.coalesce(is_of_claim, F.lit(False)))
    row = F.struct("_state", "_lease", "_error")
    moved = later.join(granted, "_seq", "left_semi").groupBy("_seq")
    after = moved.agg(F.min_by(row, "_step").alias("_next"))
    nobodys = F.col("_next._lease").isNull() & F.col("_next._error").isNull()
    return after.where((F.col("_next._state") == READY) & nobodys).count()
