"""Process a queue: claim, run a handler on the executors, settle, until there is nothing left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_queue.claim import Claim, claimed
from spark_queue.delta.commands import forwarding, recovery, rescue, settle, settle_and_claim
from spark_queue.delta.commands.claims import new_claim_id
from spark_queue.delta.commands.evidence import Output
from spark_queue.delta.commands.settle import SettledStep, Verdict
from spark_queue.delta.replica.request import Request
from spark_queue.delta.steps import is_small
from spark_queue.delta.store import fencing
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import logger
from spark_queue.delta.views import items
from spark_queue.delta.views.standing import Standing, standing
from spark_queue.errors import InvalidArgumentError, UnsafeSessionError
from spark_queue.processing import interrupts
from spark_queue.processing.executor import Apart, Runner, outcomes, run_batches, run_items
from spark_queue.processing.handlers import AnyHandler
from spark_queue.processing.learnt import Learnt, WorkerDied
from spark_queue.processing.needs import require_for_handlers
from spark_queue.rules.model import Reason

#: Why processing ended. Of a queue that is paused or waits nothing could be claimed, though it is
#: not empty.
Stopped = Literal["empty", "paused", "waiting", "time limit", "stop"]

#: Parts of a lease after which it is renewed while a handler runs.
_RENEWALS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessResult:
    """What processing a queue did."""

    claims: int = 0
    """Claims that got items."""
    acked: int = 0
    """Items done."""
    failed: int = 0
    """Failed attempts after which an item is retried."""
    released: int = 0
    """Items given back untouched, and charged nothing, because one before them failed."""
    dead: int = 0
    """Items that went to the dead letters."""
    seconds: float = 0.0
    """How long it took."""
    stopped: Stopped = "empty"
    """Why it ended; ``"paused"`` and ``"waiting"``: with items left, of which none may run now."""
    waiting: Mapping[Reason, int] = field(default_factory=dict)
    """Those items, by what is in their way, as :meth:`DeltaQueue.explain` calls it."""
    until: datetime | None = None
    """When time alone may let one of them run: the end of a delay, or of somebody's lease."""

    def plus(self, done: SettledStep, seconds: float) -> ProcessResult:
        """Return the result after one more claim was settled, so many seconds after the start."""
        return replace(
            self,
            claims=self.claims + 1,
            acked=self.acked + done.counts.get("acked", 0),
            failed=self.failed + done.failed,
            released=self.released + done.released,
            dead=self.dead + done.counts.get("dead", 0),
            seconds=seconds,
        )

    def _repr_html_(self) -> str:
        return (
            f"<b>{self.acked}</b> acked, <b>{self.failed}</b> failed, <b>{self.dead}</b> dead, "
            f"{self.released} released in {self.claims} claim(s), {self.seconds:.1f} s "
            f"({self.stopped}{self._left()})"
        )

    def _left(self) -> str:
        counts = ", ".join(f"{count} {why}" for why, count in self.waiting.items())
        until = "" if self.until is None else f", until {self.until:%F %T%z}"
        return f": {counts}{until}" if counts else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What to do with the items of a claim."""

    handler: AnyHandler
    per: Literal["item", "batch"] = "item"
    request: Request
    returns: StructType | None = None
    output: Output | None = None


def worker_id(store: Store) -> str:
    """Return an id for this process; others on this machine can tell from it whether it runs."""
    return fencing.life_of(store.handle.place.directory())


def process(
    store: Store,
    work: Work,
    *,
    time_limit: timedelta | None,
    stop: threading.Event | None,
    on_claim: Callable[[ProcessResult], None] | None,
) -> ProcessResult:
    """Claim, run and settle until the queue is empty, the time is up, or someone stops it."""
    require_safe(store, work)
    run = partial(_processed, store, work, time_limit, on_claim)
    if threading.current_thread() is threading.main_thread():
        return interrupts.interruptible(store.spark, run, stop)
    return run(stop or threading.Event())


def _processed(
    store: Store,
    work: Work,
    time_limit: timedelta | None,
    on_claim: Callable[[ProcessResult], None] | None,
    stop: threading.Event,
) -> ProcessResult:
    started = time.monotonic()
    result = ProcessResult()
    if work.output is not None:
        work.output.ensure(_no_results(store, work))
        work = replace(work, request=_with_output(work.request, work.output))
    deadline = None if time_limit is None else started + time_limit.total_seconds()
    learnt = Learnt(stop)
    ahead = _Ahead(store, work, lambda: _reason_to_stop(deadline, stop) is None)
    with ahead:
        while (reason := _reason_to_stop(deadline, stop)) is None:
            claim = ahead.take() or _next_claim(store, work)
            if claim.count == 0:
                reason = "empty"
                break
            done = _work_off(store, claim, work, ahead, learnt)
            result = result.plus(done, time.monotonic() - started)
            if on_claim is not None:
                on_claim(result)
    left = standing(store) if reason == "empty" else Standing()
    if left.waiting:
        reason = "paused" if "paused" in left.waiting else "waiting"
    return replace(
        result,
        seconds=time.monotonic() - started,
        stopped=reason,
        waiting=left.waiting,
        until=left.until,
    )


def _with_output(request: Request, output: Output) -> Request:
    """Return a request whose claims name an output, and leave those of others to be asked first."""
    return replace(request, output=output.lasting_name(), takes_lapsed=False)


class _Ahead:
    """The next claim, where it was made in the step that settled the one before.

    Leaving the block gives it back, if nobody took it: uncharged, as if it had not been made.
    """

    def __init__(self, store: Store, work: Work, may_go_on: Callable[[], bool]) -> None:
        self._store = store
        self._work = work
        self._may_go_on = may_go_on
        self._claim: Claim | None = None

    def take(self) -> Claim | None:
        """Return the claim, once."""
        claim, self._claim = self._claim, None
        return claim

    def settled(self, claim: Claim, verdict: Verdict) -> SettledStep:
        """Settle a claim, and make the next one in the same step, if that is possible."""
        store = self._store
        if self._may_go_on():
            both = settle_and_claim.settle_and_claim(
                store, claim.lease, verdict, _request(self._work)
            )
            if both is not None:
                self._claim = Claim(store, both[1])
                return both[0]
        return settle.settle(store, claim.lease, verdict)

    def __enter__(self) -> None:
        """Do nothing: the block is for its end."""

    def __exit__(self, *_: object) -> None:
        left = self.take()
        if left is not None and left.count:
            rescue.abandon(self._store, left.lease, left.id)


def _reason_to_stop(deadline: float | None, stop: threading.Event) -> Stopped | None:
    if stop.is_set():
        return "stop"
    if deadline is not None and time.monotonic() >= deadline:
        return "time limit"
    return None


def _next_claim(store: Store, work: Work) -> Claim:
    """Claim, after settling what the claims of dead holders have to show for themselves."""
    recovery.recover(store)
    return claimed(store, _request(work))


def _request(work: Work) -> Request:
    return replace(work.request, claim_id=new_claim_id())


def _work_off(store: Store, claim: Claim, work: Work, ahead: _Ahead, learnt: Learnt) -> SettledStep:
    try:
        with _renewing(claim):
            stage = _handled(store, claim, work, learnt)
            if work.output is not None and not _written(work.output, stage, claim):
                logger.warning("%s was taken over while it worked; its output is dropped", claim)
                return SettledStep(step=0, counts={}, lost=())
            # Asked before the settle: what follows a commit must not keep its news back.
            unasked = work.returns is None and learnt.gave_rows(stage)
            done = ahead.settled(claim, _verdict(stage, claim.count))
        forwarding.forward(store)
    except WorkerDied:
        logger.warning("a worker died of an item of %s: it runs again, each item apart", claim)
        return rescue.abandon(store, claim.lease, claim.id)
    except BaseException:
        rescue.abandon(store, claim.lease, claim.id)
        raise
    if done.lost:
        logger.warning("%s lost %d item(s) while it worked on them", claim, len(done.lost))
    missed = claim.count - sum(done.counts.values()) - len(done.lost)
    if missed > 0 and len(done.lost) < settle.NAMED:
        learnt.missed(missed)
    if unasked:
        learnt.warn_of_rows()
    return done


def _verdict(stage: DataFrame, claimed: int) -> Verdict:
    """Return what the outcomes say; where many items are all done, that needs no join."""
    if not is_small(claimed):
        rows = stage.agg(F.count(F.lit(1)), F.count_if(F.col("outcome") == "ack")).collect()[0]
        if rows[0] == rows[1] == claimed:
            return settle.Every("ack")
    return settle.Each(stage)


def _written(output: Output, stage: DataFrame, claim: Claim) -> bool:
    results = stage.where((F.col("outcome") == "ack") & F.col("result").isNotNull())
    rows = results.select("result.*", "_seq", F.lit(claim.id).alias("_claim_id"))
    if rows.limit(1).count() == 0:
        return True
    return output.write(rows, claim.id)


def _handled(store: Store, claim: Claim, work: Work, learnt: Learnt) -> DataFrame:
    with interrupts.cancelled_first(store.spark):
        leased = items.leased(store, claim.lease)
        apart = learnt.apart(leased.losses)
        try:
            stage = _mapped(leased.rows, _runner(store, work, apart), work).localCheckpoint()
        except Exception as exc:
            learnt.look_at(exc, apart)
            raise
    if apart is not None and work.per == "batch":
        learnt.divided(stage)
    return stage


def _runner(store: Store, work: Work, apart: Apart | None) -> Runner:
    if work.per == "batch":
        return run_batches(work.handler, work.returns, apart=apart)
    on_failure = store.settings(store.status_head()).config.on_failure
    return run_items(work.handler, work.returns, on_failure=on_failure, apart=apart)


def _mapped(frame: DataFrame, runner: Runner, work: Work) -> DataFrame:
    """Run the handler on the executors: a group in one partition, in order."""
    group = F.col("_group_key")
    together = F.when(group.isNull(), F.col("_seq")).otherwise(F.xxhash64(group))
    ordered = _spread(frame, together).sortWithinPartitions(together, "_group_key", "_seq")
    return ordered.mapInArrow(runner, outcomes(work.returns))


def _spread(frame: DataFrame, together: Column) -> DataFrame:
    """Spread a claim over the cores; given a number, Spark does not merge small partitions."""
    partitions = frame.sparkSession.conf.get("spark.sql.shuffle.partitions")
    if partitions is None or not partitions.isdigit():
        return frame.repartition(together)
    return frame.repartition(int(partitions), together)


def _no_results(store: Store, work: Work) -> DataFrame:
    columns = [] if work.returns is None else work.returns.fields
    marks = [StructField("_seq", LongType()), StructField("_claim_id", StringType())]
    return store.spark.createDataFrame([], StructType([*columns, *marks]))


def require_safe(store: Store, work: Work) -> None:
    """Raise where work could not be done, or could be done twice, before anything is claimed.

    Raises
    ------
    InvalidArgumentError
        When options do not go together, or the handler does not pickle.
    InvalidConfigError
        When the driver lacks what Spark needs to run a handler.
    UnsafeSessionError
        When the session runs tasks speculatively.
    """
    require_for_handlers()
    if work.output is not None and work.returns is None:
        raise InvalidArgumentError("output is given without returns: say which columns it gets")
    try:
        cloudpickle.dumps(work.handler)  # type: ignore[no-untyped-call]
    except Exception as exc:
        raise InvalidArgumentError(
            f"handler {work.handler!r} cannot be sent to executors: {exc}; "
            "make what it needs inside it"
        ) from exc
    if str(store.spark.conf.get("spark.speculation", "false")).lower() == "true":
        raise UnsafeSessionError(
            "spark.speculation", "a handler would run twice for one lease; set it to false"
        )


@contextmanager
def _renewing(claim: Claim) -> Iterator[None]:
    """Renew a claim in the background while the block runs."""
    held_for = claim.lease_expires_at - claim.claimed_at
    done = threading.Event()

    def renew() -> None:
        while not done.wait(held_for.total_seconds() / _RENEWALS):
            _renew(claim, held_for)

    thread = threading.Thread(target=renew, name=f"renew-{claim.lease}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _renew(claim: Claim, by: timedelta) -> None:
    try:
        claim.renew(by)
    except Exception as exc:  # noqa: BLE001 - the next renewal may go well, and the settle tells
        logger.warning("%s could not be renewed: %s", claim, exc)
