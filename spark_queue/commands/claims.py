"""Claims: a lease of what comes next, as one step of the status log, alone or with a settle."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_queue import checks
from spark_queue.commands import admin, recovery, settle
from spark_queue.commands.settle import SettledStep
from spark_queue.errors import InvalidArgumentError
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk.file_scans import bytes_of
from spark_queue.log.heads import QueueHead, StatusHead, following
from spark_queue.log.schema import CLAIMED, READY
from spark_queue.rules.places import freed_at
from spark_queue.sql.decisions import EvidenceFirst
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import claim_decision, fence, replica_choice
from spark_queue.state.claim_decision import Chosen
from spark_queue.state.open_items import RememberedClaim
from spark_queue.state.replica import Replica
from spark_queue.state.replica_rows import status_table
from spark_queue.state.request import Choice, GrantedClaim, Request
from spark_queue.state.settle_decision import Judged, StagedSettle, Verdict, find_held, pausing_of
from spark_queue.state.snapshot import Snapshot, look_as_far
from spark_queue.state.steps import Answer, Step, engine_of, is_small, on_status, once_on_status
from spark_queue.state.store import Store
from spark_queue.state.window import TooManyItemsError
from spark_queue.wording import utf8

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: A single item is claimed, however large it is.
_SEVERAL = 2


def claim(at: Snapshot, request: Request) -> GrantedClaim:
    """Lease the next items, as one step; a claim that gets nothing writes nothing.

    Where the time of a claim is over that names an output, it is settled first by what that has;
    what cannot be asked here stays its holder's.
    """
    try:
        return _claim(at, request)
    except EvidenceFirst as exc:
        recovery.settle_lapsed(at.store, exc.claims)
        spared = request.spared | exc.claims.keys()
    return claim(Snapshot(at.store), replace(request, spared=spared))


def _claim(seen: Snapshot, request: Request) -> GrantedClaim:
    store = seen.store
    _read_before(seen, request)

    def decide(at: Snapshot) -> Answer[GrantedClaim]:
        # Asked within the step: to wait for the right to write may take longer than units do.
        now = store.clock.now()
        nothing = GrantedClaim(
            step=0, count=0, claim_id=request.claim_id, claimed_at=now, lease_expires_at=now
        )
        at.require_whole()
        same = same_claim(at, request.claim_id) if request.repeatable else None
        if same is not None:
            return Answer(answer=same)
        if not at.has_to_give(at.status):
            # Nothing is read to find nothing.
            return Answer(answer=nothing)
        look_as_far(at)
        fitting, here, stage = _choose(at, request, now)
        if stage is None or stage.total() == 0:
            return Answer(answer=nothing)
        after = log_claim(at.status, stage, at.queue, fitting)
        replica_choice.note_large(at, stage.count_claimed(), after)
        rows = stage.table()
        return Step(
            head=after,
            rows=rows,
            small=is_small(stage.total()),
            counts=stage.by_state(),
            lease=after.step,
            answer=grant(stage, request, now, after.step),
            engine="python" if here else engine_of(rows),
        )

    return on_status(store, "claim", decide, at=seen)


def _read_before(at: Snapshot, request: Request) -> None:
    """Read what a first claim is decided by before it holds up others that write."""
    is_needed = at.is_local and at.position.replica is None and at.has_to_give(at.status)
    if not is_needed or replica_choice.is_large(at, request.limit):
        return
    try:
        _choose_here(at, replace(request, limit=1), at.store.clock.now())
    except OSError:
        # A purge may have removed files: within the step all that are named are there.
        at.position.replica = None


def _choose(
    at: Snapshot, request: Request, now: datetime
) -> tuple[Request, Chosen | None, Choice | None]:
    """Choose items, fewer than asked for where they are large; also return the choice made here."""
    here = _choose_here(at, request, now)
    stage = here or planner_of(at.store).choose(at, request, now)
    fewer = None if stage is None else _count_fitting(at, stage, request)
    if fewer is None:
        return request, here, stage
    return _choose(at, request.fitting(fewer), now)


def _count_fitting(at: Snapshot, stage: Choice, request: Request) -> int | None:
    """Return how many items fit the size limit; ``None`` for all of them."""
    count = stage.count_claimed()
    if count < _SEVERAL:
        return None
    log = at.item_log
    if not isinstance(log, DeltaLog):
        return None
    seqs = stage.seqs()
    files = [] if seqs is None else [file for file in log.files() if file.gen >= 0]
    size = bytes_of(log.directory, files, seqs or (), request.max_bytes)
    if size <= request.max_bytes:
        return None
    return max(1, min(count - 1, int(count * request.max_bytes / size)))


def _choose_here(at: Snapshot, request: Request, now: datetime) -> Chosen | None:
    """Choose in this process; ``None`` where Spark has to."""
    with at.cache.lock:
        is_large = replica_choice.is_large(at, request.limit)
        replica = None if is_large else replica_choice.at_hand(at)
        if replica is None:
            return None
        lapsed = claim_decision.lapsed_leases(replica, at.settings.config, now) - request.spared
        if named := recovery.with_output(at.store, replica, lapsed):
            raise EvidenceFirst(named)
        try:
            return claim_decision.choose(replica, at.status, at.terms, request, now)
        except TooManyItemsError:
            replica_choice.too_many(at)
            return None


def grant(stage: Choice, request: Request, now: datetime, step: int) -> GrantedClaim:
    """Return a claim's answer, given its stage and the step that logged it."""
    return GrantedClaim(
        step=step if stage.count_claimed() else 0,
        count=stage.count_claimed(),
        claim_id=request.claim_id,
        claimed_at=now,
        lease_expires_at=now + request.lease,
    )


def log_claim(head: StatusHead, stage: Choice, queue: QueueHead, request: Request) -> StatusHead:
    """Return the head of the step that writes a stage, as of a step of the item log."""
    count = stage.count_claimed()
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
        looked=queue.step if queue.chain_step else head.looked,
        claim_size=request.size_granted(head.step + 1, count) if count else head.claim_size,
    )


def same_claim(at: Snapshot, claim_id: str) -> GrantedClaim | None:
    """Return the claim that was granted under an id, if there was one."""
    with at.cache.lock:
        replica = replica_choice.at_hand(at)
        known = None if replica is None else replica.claim_of(claim_id)
        if replica is not None and known is not None:
            return _granted_before(claim_id, *known, _over(replica, *known))
        if replica is not None and not replica.has_forgotten:
            return None
    return planner_of(at.store).find_claim(claim_id)


def _over(replica: Replica, lease: int, grant: RememberedClaim) -> tuple[int, ...]:
    """Return the items of a claim that it does not hold any more."""
    return tuple(sorted(seq for seq in grant.rows if find_held(replica, lease, seq) is None))


def _granted_before(
    claim_id: str, lease: int, grant: RememberedClaim, over: tuple[int, ...]
) -> GrantedClaim:
    first = next(iter(grant.rows.values()))
    return GrantedClaim(
        step=lease,
        count=len(grant.rows) - len(over),
        over=over,
        claim_id=claim_id,
        claimed_at=first["_at"].astimezone(timezone.utc),
        lease_expires_at=first["_lease_expires_at"].astimezone(timezone.utc),
    )


def new_claim_id() -> str:
    """Return a new id, for a claim without one."""
    return uuid.uuid4().hex


def request(
    at: Snapshot,
    limit: int,
    lease: timedelta | None,
    worker_id: str | None,
    run: int,
    claim_id: str | None,
    max_bytes: int = checks.BYTES_PER_CLAIM,
) -> Request:
    """Check a claim's arguments; its default holder is this process."""
    facts = at.registered()
    if facts.streams:
        raise InvalidArgumentError(
            f"reader {facts.name!r} is read as a stream: claim with another reader"
        )
    held_for = at.settings.config.lease if lease is None else lease
    return Request(
        limit=limit,
        lease=held_for,
        worker_id=_holder(at, claim_id) if worker_id is None else utf8(worker_id),
        run=run,
        claim_id=utf8(claim_id, "backslashreplace") if claim_id else new_claim_id(),
        repeatable=claim_id is not None,
        max_bytes=max_bytes,
    )


def _holder(at: Snapshot, claim_id: str | None) -> str:
    """Return this process's worker id, if others can tell by it when it ends.

    A claim with an id may be asked for once more by the process that comes after this one, and is
    nobody's: it is held until its lease is over.
    """
    directory = at.handle.place.directory()
    return "" if directory is None or claim_id is not None else fence.life_of(directory)


#: Nothing is written: settling and claiming are two steps.
_NEITHER: Answer[tuple[SettledStep, GrantedClaim] | None] = Answer(answer=None)


def settle_and_claim(
    store: Store, lease: int, verdict: Verdict, request: Request
) -> tuple[SettledStep, GrantedClaim] | None:
    """Settle a lease and take the next one in a single step.

    Returns
    -------
    tuple of SettledStep and GrantedClaim, or None
        ``None`` where this is not possible, and nothing was written: an item goes back, so that it
        would be in the step twice; a lease of others is over, or its process has ended; others hold
        claims where a planner decides; there is nothing to claim, or it is too large; a checkpoint
        is due; a key is to be paused; or the step was lost to another writer.
    """

    def decide(at: Snapshot) -> Answer[tuple[SettledStep, GrantedClaim] | None]:
        now = store.clock.now()
        told = settle.as_noted(at, verdict)
        if admin.is_checkpoint_due(at.status, request.limit) or pausing_of(told):
            return _NEITHER
        look_as_far(at)
        here = both = _here(at, lease, told, request, now)
        if here is None and not at.has_spark and not at.are_files_read:
            # Without Spark and files, only items in memory can be decided.
            return _NEITHER
        if here is None:
            both = _plan_by_tables(at, lease, told, request, now)
        if both is None or not both.fits():
            return _NEITHER
        engine = "python" if here else engine_of(both.rows)
        return replace(both.step(request, now, at.queue), lease=lease, engine=engine)

    return once_on_status(store, "settle and claim", decide)


@dataclass(frozen=True, slots=True)
class _Both:
    """A settle and the claim after it, to be written as one step."""

    settled: StatusHead
    """The head after the settle, at the step before it."""
    done: StagedSettle | Judged
    stage: Choice
    rows: DataFrame | pa.Table

    def fits(self) -> bool:
        """Whether no item goes back, and a next claim exists."""
        return READY not in self.done.counts and self.stage.total() > 0

    def step(
        self, request: Request, now: datetime, queue: QueueHead
    ) -> Step[StatusHead, tuple[SettledStep, GrantedClaim] | None]:
        """Return the step that writes both."""
        done, stage = self.done, self.stage
        after = log_claim(self.settled, stage, queue, request)
        return Step(
            head=after,
            rows=self.rows,
            small=is_small(done.total() + stage.total()),
            counts={**done.counts, **stage.by_state()},
            answer=(
                settle.report_step(done, after.step),
                grant(stage, request, now, after.step),
            ),
        )


def _here(
    at: Snapshot, lease: int, verdict: Verdict, request: Request, now: datetime
) -> _Both | None:
    """Decide both in this process; ``None`` where a planner has to."""
    with at.cache.lock:
        is_large = replica_choice.is_large(at, request.limit)
        replica = None if is_large else replica_choice.at_hand(at)
        if replica is None:
            return None
        done = settle.judge_here(at, replica, lease, verdict, now)
        if done is None:
            return None
        head = at.status
        settled = replace(settle.log_settle(head, done), step=head.step)
        # An item that goes back would be in the step twice.
        stage = claim_decision.nothing(settled)
        is_apart = READY not in done.counts and not _has_late_holder(at, replica, done, now)
        if is_apart and at.has_to_give(settled):
            try:
                stage = claim_decision.choose(replica, settled, at.terms, request, now, done.rows)
            except TooManyItemsError:
                replica_choice.too_many(at)
                return None
            if _count_fitting(at, stage, request) is not None:
                stage = claim_decision.nothing(settled)
        return _Both(settled, done, stage, status_table([*stage.rows, *done.rows]))


def _has_late_holder(at: Snapshot, replica: Replica, done: Judged, now: datetime) -> bool:
    """Whether items beside those that are settled are to be recovered or taken over first."""
    settled = {row["_seq"] for row in done.rows}
    held = [row for row in replica.items.in_flight() if row["_seq"] not in settled]
    config = at.settings.config
    is_over = any(freed_at(row["_lease_expires_at"], config) <= now for row in held)
    return is_over or bool(held and recovery.find_ended(at.store, held))


def _plan_by_tables(
    at: Snapshot, lease: int, verdict: Verdict, request: Request, now: datetime
) -> _Both | None:
    """Have both decided by the tables; ``None`` where they do not go together."""
    planner, head = planner_of(at.store), at.status
    done = planner.judge(at, lease, verdict, now)
    if READY in done.counts or done.total() != head.claimed:
        return None
    settled = replace(settle.log_settle(head, done), step=head.step)
    next_one = planner.chosen_after(at, done, settled, request, now)
    if next_one is None or _count_fitting(at, next_one[0], request) is not None:
        return None
    return _Both(settled, done, *next_one)
