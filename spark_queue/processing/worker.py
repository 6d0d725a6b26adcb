"""Process a queue by Spark: a handler runs on executors, its results are a commit of Spark's."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_queue import saying
from spark_queue.claim import Claim
from spark_queue.columns.columns import parse_columns
from spark_queue.commands.evidence import Output
from spark_queue.commands.settle import SettledStep
from spark_queue.errors import InvalidArgumentError, OutputRefusedError, UnsafeSessionError
from spark_queue.log.delta.claim_record import ClaimRecord, error_room
from spark_queue.log.job_descriptions import described
from spark_queue.log.output import output_columns
from spark_queue.overriding import override
from spark_queue.processing import interrupts
from spark_queue.processing.claim_parts import Hands
from spark_queue.processing.event_loop import is_async
from spark_queue.processing.executor import (
    Runner,
    in_zone,
    outcomes,
    pack,
    require_for_handlers,
    run_batches,
    run_items,
    unpacking,
)
from spark_queue.processing.handler_span import Continuing
from spark_queue.processing.handler_types import AnyHandler, Apart
from spark_queue.processing.loop import Asked, ProcessResult, run_claims
from spark_queue.processing.staged_outcomes import Learnt, StagedOutcomes
from spark_queue.state.request import Request
from spark_queue.state.settle_decision import NAMED, Verdict
from spark_queue.state.store import Store
from spark_queue.views import items
from spark_queue.wording import shorten

#: How many items the first claim has: a job of Spark's is hardly longer for so many.
_FIRST = 1_000

#: Parts of a claim where a session does not say how many.
_CORES = 200


def check(asked: Asked) -> None:
    """Raise where an option is for handlers in this process, on any queue."""
    _require_plain(asked.handler)
    name, value = ("using", asked.using) if asked.using else ("max_workers", asked.max_workers)
    if value != 1:
        raise InvalidArgumentError(
            f"{name} is {value!r}: handlers run on executors here, on as many as the session has"
        )


def hands_for(store: Store, asked: Asked) -> SparkHands:
    """Return the hands for a queue in a session; raises as :func:`require_safe`."""
    hands = SparkHands(store, asked)
    require_safe(store, asked)
    return hands


def process(store: Store, asked: Asked) -> ProcessResult:
    """Claim, run and settle until the queue is empty, the time is up, or someone stops it."""
    run = partial(run_claims, store, hands_for(store, asked), asked)
    if threading.current_thread() is threading.main_thread():
        return interrupts.interruptible(store.spark, run, asked.stop)
    return run(asked.stop or threading.Event())


class SparkHands(Hands):
    """Hands that run a handler on executors, and commit results by Spark.

    Executors watch the time themselves, and a job reports all its outcomes when it is over: nothing
    comes from a task that runs, or reaches it.

    Parameters
    ----------
    store : Store
        The queue, as its reader sees it.
    asked : Asked
        What to do with the items.
    """

    def __init__(self, store: Store, asked: Asked) -> None:
        self._store, self._asked, self._request = store, asked, asked.request(store)
        self._returns: StructType | None = None
        if asked.returns is not None:
            self._returns = parse_columns(asked.returns, "returns")
        self._output = None if asked.output is None else Output(store.spark, asked.output)
        self._learnt = Learnt(threading.Event())
        self._handled: StagedOutcomes | None = None
        self._until = self.patience = math.inf
        self.handler_name, self.first = asked.handler_name(), _FIRST
        self._slots = 1.0

    @override
    def begin(self, stop: threading.Event) -> Request:
        self._learnt = Learnt(stop)
        if self._output is None:
            return self._request
        there = self._output.ensure(self._results())
        if self._returns is not None:
            self._returns = output_columns.with_required(self._returns, there)
        # Claims that others left are settled first, by the rows of their output.
        return replace(self._request, output=self._output.lasting_name())

    @override
    def work(self, claim: Claim) -> float:
        began = time.monotonic()
        self._handled = self._handle(claim)
        took = time.monotonic() - began
        self._slots = max(self._slots, self._handled.seconds / took)
        # What Spark takes for a job is none of the items' time.
        return self._handled.seconds / self._slots

    @override
    def tell(self, claim: Claim) -> Verdict | None:
        output, told = self._output, self._handled
        told = told if output is None or told is None else self._write(output, told, claim)
        if told is None:
            return None
        # Noted before the settle: what follows a commit must not keep its news back.
        self.is_unasked = told.unasked > 0
        return told.verdict(claim)

    @override
    def after_settle(self, claim: Claim, done: SettledStep) -> None:
        if done.released == claim.count and time.time() >= self._until:
            self._learnt.note_none(claim)
        missed = claim.count - sum(done.counts.values()) - len(done.lost)
        if missed > 0 and len(done.lost) < NAMED:
            self._learnt.note_missed(missed)
        super().after_settle(claim, done)

    def _handle(self, claim: Claim) -> StagedOutcomes:
        store, learnt = self._store, self._learnt
        about = f"queue {store.name}: handle items, claim {claim.id}, lease {claim.lease}"
        with interrupts.cancelled_first(store.spark), described(store.spark, about):
            here = items.read_table(store, claim.lease)
            leased = items.lease_items(store, claim.lease) if here is None else here
            apart = learnt.apart(leased.losses)
            try:
                self._until = learnt.until(claim)
                runner, returns = self._runner(apart, self._until), self._returns
                if isinstance(leased, items.LeasedTable):
                    mapped = _map_handler_here(store, leased.rows, runner, returns)
                else:
                    mapped = _map_handler(leased.rows, runner, returns)
                told = StagedOutcomes.of(mapped.localCheckpoint())
            except Exception as exc:
                learnt.look_at(exc, apart)
                raise
        if apart is not None and self._asked.per == "batch":
            learnt.note_divided(told.stage)
        return told

    def _runner(self, apart: Apart | None, until: float) -> Runner:
        store, asked, target = self._store, self._asked, self._request.target
        handler = Continuing(asked.handler, store.name)
        most = math.inf if target is None else target.total_seconds()
        if asked.per == "batch":
            return run_batches(handler, self._returns, apart=apart, until=until, most=most)
        on_failure = store.settings(store.status_head()).config.on_failure
        return run_items(
            handler,
            self._returns,
            on_failure=on_failure,
            apart=apart,
            until=until,
            most=most,
            limit=asked.item_limit(),
        )

    def _results(self) -> StructType:
        columns = [] if self._returns is None else self._returns.fields
        marks = [StructField("_seq", LongType()), StructField("_claim_id", StringType())]
        return StructType([*columns, *marks])

    def _write(
        self, output: Output, told: StagedOutcomes, claim: Claim, *, is_second: bool = False
    ) -> StagedOutcomes | None:
        """Write results, and return the outcomes; ``None`` where the claim was taken over.

        Items whose results the table refuses have failed.
        """
        try:
            return told if _is_written(output, told, claim) else None
        except Exception as exc:
            if not output_columns.is_refusal(exc):
                raise
            found = None if is_second else self._fail_refused(output, told.stage, claim)
            if found is None:
                said = output_columns.refusal_of(exc)
                raise OutputRefusedError(output.address.target, claim.id, said) from exc
        return self._write(output, found, claim, is_second=True)

    def _fail_refused(
        self, output: Output, stage: DataFrame, claim: Claim
    ) -> StagedOutcomes | None:
        refused = output.find_refused(_rows(stage, claim)).localCheckpoint()
        if refused.isEmpty():
            return None
        config, groups = self._store.settings(self._store.status_head()).config, None
        if config.on_failure == "block" and self._asked.per == "item":
            groups = items.lease_items(self._store, claim.lease).rows.select("_seq", "_group_key")
        return StagedOutcomes.of(
            output_columns.fail_refused(stage, refused, groups).localCheckpoint()
        )


def _rows(stage: DataFrame, claim: Claim) -> DataFrame:
    """Return the results of acked items, as they are written."""
    results = stage.where((F.col("outcome") == "ack") & F.col("result").isNotNull())
    return results.select("result.*", "_seq", F.lit(claim.id).alias("_claim_id"))


def _is_written(output: Output, told: StagedOutcomes, claim: Claim) -> bool:
    """Write results and their record; False where the claim was taken over."""
    if told.rows == 0:
        return True
    stage, is_whole = told.stage, told.total == claim.count
    is_done, has_row = F.col("outcome") == "ack", F.col("result").isNotNull()
    left = stage.where(~is_done if is_whole else ~(is_done & has_row))
    error = F.left("error", F.lit(error_room(told.total - told.done)))
    is_needed = not is_whole or told.total > told.done
    found = left.select("_seq", "outcome", error, "after").collect() if is_needed else []
    outcomes = {seq: saying.Said.of(*said) for seq, *said in found}
    record = ClaimRecord(claim_id=claim.id, outcomes=outcomes, is_whole=is_whole)
    return output.write(_rows(stage, claim), record)


def _map_handler_here(
    store: Store, rows: pa.Table, runner: Runner, returns: StructType | None
) -> DataFrame:
    """Run the handler on the executors over items that are in this process."""
    spark = store.spark
    zone = spark.conf.get("spark.sql.session.timeZone")
    batch = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    parts = pack(in_zone(rows, str(zone)), _partitions(spark) or _CORES)
    return spark.createDataFrame(parts).mapInArrow(
        unpacking(runner, int(batch or 0)), outcomes(returns)
    )


# rule again: work of a group
def _map_handler(frame: DataFrame, runner: Runner, returns: StructType | None) -> DataFrame:
    """Run the handler on the executors: a group in one partition, in order."""
    group = F.col("_group_key")
    together = F.when(group.isNull(), F.col("_seq")).otherwise(F.xxhash64(group))
    ordered = _spread(frame, together).sortWithinPartitions(together, "_group_key", "_seq")
    return ordered.mapInArrow(runner, outcomes(returns))


def _spread(frame: DataFrame, together: Column) -> DataFrame:
    """Spread a claim over the cores; given a number, Spark does not merge small partitions."""
    partitions = _partitions(frame.sparkSession)
    return (
        frame.repartition(together)
        if partitions is None
        else frame.repartition(partitions, together)
    )


def _partitions(spark: SparkSession) -> int | None:
    """Return how many parts a claim is to have, where the session says it."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    return int(partitions) if partitions is not None and partitions.isdigit() else None


def require_safe(store: Store, asked: Asked) -> None:
    """Raise where work could not be done, or could be done twice, before anything is claimed.

    Raises
    ------
    InvalidArgumentError
        When options do not go together, or the handler does not pickle or is ``async def``.
    InvalidConfigError
        When the driver lacks what Spark needs to run a handler.
    UnsafeSessionError
        When the session runs tasks speculatively.
    """
    require_for_handlers()
    _require_plain(asked.handler)
    try:
        cloudpickle.dumps(asked.handler)  # type: ignore[no-untyped-call]
    except Exception as exc:
        raise InvalidArgumentError(
            f"handler {asked.handler!r} cannot be sent to executors: {exc}; "
            "make what it needs inside it"
        ) from exc
    if str(store.spark.conf.get("spark.speculation", "false")).lower() == "true":
        raise UnsafeSessionError(
            "spark.speculation", "a handler would run twice for one lease; set it to false"
        )


def _require_plain(handler: AnyHandler) -> None:
    if is_async(handler):
        raise InvalidArgumentError(
            f"handler {shorten(handler)} is async def, and executors await nothing: process "
            "the queue as a LocalQueue, or call asyncio.run in a plain function"
        )
