"""Claim: lease what comes next, as one step of the status log."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timezone

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_queue.delta import verify
from spark_queue.delta.plans.candidates import StagedClaim, counted, nearest, staged, without
from spark_queue.delta.replica import claiming
from spark_queue.delta.replica.claiming import LEASE_LOST, Chosen
from spark_queue.delta.replica.request import Request
from spark_queue.delta.replica.state import RememberedClaim
from spark_queue.delta.steps import Answer, Step, is_small, on_status
from spark_queue.delta.store import replicas
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead, following
from spark_queue.delta.tables.schema import CLAIMED, DEAD, ITEM, READY, SCHEDULE
from spark_queue.delta.tables.settings import Settings
from spark_queue.delta.verify import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedClaim:
    """What a claim got."""

    step: int
    """The step that granted the lease; 0 where nothing was claimed."""
    count: int
    claim_id: str
    claimed_at: datetime
    lease_expires_at: datetime


def claim(store: Store, request: Request) -> GrantedClaim:
    """Lease the next items, as one step; a claim that gets nothing writes nothing."""
    now = store.clock.now()
    nothing = GrantedClaim(
        step=0, count=0, claim_id=request.claim_id, claimed_at=now, lease_expires_at=now
    )
    planned = _Planned(store, request, now)

    def decided(head: StatusHead) -> Answer[GrantedClaim]:
        store.require_whole()
        same = same_claim(store, request.claim_id) if request.repeatable else None
        if same is not None:
            return Answer(answer=same)
        settings = store.settings(head)
        here = _chosen(store, head, settings, request, now)
        if here is not None:
            _check(store, head, settings, request, now, here)
        stage = here or planned.at(head, settings)
        if stage is None or stage.total() == 0:
            return Answer(answer=nothing)
        after = logged(head, stage)
        return Step(
            head=after,
            rows=_to_log(stage, request, now, after.step),
            small=is_small(stage.total()),
            counts=stage.by_state(),
            answer=granted(stage, request, now, after.step),
        )

    return on_status(store, "claim", decided)


class _Planned:
    """What Spark chooses for a claim: carried over the steps to which a try was lost."""

    def __init__(self, store: Store, request: Request, now: datetime) -> None:
        self._store = store
        self._request = request
        self._now = now
        self._stage: StagedClaim | None = None
        self._basis: StatusHead | None = None

    def at(self, head: StatusHead, settings: Settings) -> StagedClaim | None:
        """Choose as of a step; ``None`` where there is nothing to write."""
        stage = _rebased(self._store, self._basis, head, settings, self._stage)
        if stage is None or stage.total() == 0:
            stage = staged(self._store, head, settings, self._request, self._now)
        self._stage, self._basis = stage, head
        return stage


def _chosen(
    store: Store, head: StatusHead, settings: Settings, request: Request, now: datetime
) -> Chosen | None:
    """Choose in this process; ``None`` where Spark has to."""
    with store.cache().lock:
        replica = replicas.at_hand(store)
        if replica is None or not claiming.may_choose(replica, request, now):
            return None
        return claiming.chosen(replica, head, settings, store.limits(), request, now)


def _check(
    store: Store,
    head: StatusHead,
    settings: Settings,
    request: Request,
    now: datetime,
    here: Chosen,
) -> None:
    far = claiming.far_expired(here, head, settings, nearest(settings, request))

    def planned(stage: StagedClaim | Chosen | None) -> Plan | None:
        stage = None if stage is None else near(stage, head, far)
        if stage is None or stage.total() == 0:
            return None
        after = logged(head, stage)
        return Plan(head=after, rows=_to_log(stage, request, now, after.step))

    verify.checked(
        store,
        "claim",
        lambda: planned(here),
        lambda: planned(staged(store, head, settings, request, now)),
    )


def near(
    stage: StagedClaim | Chosen, head: StatusHead, far: Collection[int]
) -> StagedClaim | Chosen:
    """Return a stage without expired items that only one of the planners may have met."""
    if isinstance(stage, Chosen):
        return claiming.without(stage, head, far)
    return without(stage, head, far)


def _to_log(
    stage: StagedClaim | Chosen, request: Request, now: datetime, step: int
) -> DataFrame | pa.Table:
    return stage.table() if isinstance(stage, Chosen) else rows(stage, request, now, step)


def granted(
    stage: StagedClaim | Chosen, request: Request, now: datetime, step: int
) -> GrantedClaim:
    """Return what a claim got by a stage that was logged as a step."""
    return GrantedClaim(
        step=step if stage.claimed() else 0,
        count=stage.claimed(),
        claim_id=request.claim_id,
        claimed_at=now,
        lease_expires_at=now + request.lease,
    )


def logged(head: StatusHead, stage: StagedClaim | Chosen) -> StatusHead:
    """Return the head of the step that writes a stage."""
    taken = sum(n for (state, was), n in stage.counts.items() if state == CLAIMED and was == READY)
    ended = sum(n for (state, was), n in stage.counts.items() if state != CLAIMED and was != READY)
    finished = {state: n for state, n in stage.by_state().items() if state != CLAIMED}
    return following(
        head,
        pointers=head.advanced(stage.pointers),
        claimed=head.claimed + taken - ended,
        finished=head.finishing(finished),
        log_rows=head.log_rows + stage.total(),
        width=stage.width,
    )


def rows(stage: StagedClaim, request: Request, now: datetime, step: int) -> DataFrame:
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
    """Carry a stage over the steps that came between, or ``None`` where it must be made anew.

    Whatever those steps name leaves the stage, and so does the rest of its group: a claim may have
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


def same_claim(store: Store, claim_id: str) -> GrantedClaim | None:
    """Return the claim that was granted under an id, if there was one."""
    with store.cache().lock:
        replica = replicas.at_hand(store)
        known = None if replica is None else replica.claim_of(claim_id)
        if known is not None or (replica is not None and not replica.has_forgotten):
            return known and _granted_before(claim_id, *known)
    row = (
        store.status.read()
        .where(
            (F.col("_kind") == ITEM)
            & (F.col("_claim_id") == claim_id)
            & (F.col("_state") == CLAIMED)
        )
        .where(F.col("_lease") == F.col("_step"))
        .agg(F.max("_lease"), F.count(F.lit(1)), F.max("_at"), F.max("_lease_expires_at"))
        .head()
    )
    if row is None or row[0] is None:
        return None
    return GrantedClaim(
        step=row[0],
        count=row[1],
        claim_id=claim_id,
        claimed_at=row[2].astimezone(timezone.utc),
        lease_expires_at=row[3].astimezone(timezone.utc),
    )


def _granted_before(claim_id: str, lease: int, grant: RememberedClaim) -> GrantedClaim:
    first = next(iter(grant.rows.values()))
    return GrantedClaim(
        step=lease,
        count=len(grant.rows),
        claim_id=claim_id,
        claimed_at=first["_at"].astimezone(timezone.utc),
        lease_expires_at=first["_lease_expires_at"].astimezone(timezone.utc),
    )


def new_claim_id() -> str:
    """Return an id for a claim whose caller gave none."""
    return uuid.uuid4().hex
