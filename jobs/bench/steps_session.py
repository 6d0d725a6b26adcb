"""Small steps of a queue in a session of Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from appends import Contender
from report import Figure, Target, at_most
from small_steps import CONFIG, ROWS, SCHEMA, Meter
from spark_queue import Claim, DeltaQueue
from spark_queue.session import SMALL_STEPS
from steps_bench import WARM, Bench, compared, millis, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STEPS = ("enqueue", "claim", "settle")


def session(bench: Bench) -> Iterator[Figure]:
    """Compare steps of one row in a session with the bare commit of it, in turns."""
    queue, meter = (
        DeltaQueue.create(bench.spark, str(bench.root / "session"), SCHEMA, CONFIG),
        Meter(),
    )
    bare = Contender("deltalake", synced=True)
    for number in range(bench.rounds + WARM):
        if number == WARM:
            meter.taken.clear()
        meter.time("bare", bare.step)
        _steps(queue, _frame(bench, number, 1), meter)
    bare.close()
    detail = f"one row in a session, over a bare commit with syncs, {bench.rounds} in turns"
    for name in _STEPS:
        yield from compared(meter, name, "bare", section="session", target=None, detail=detail)


def plain(bench: Bench) -> Iterator[Figure]:
    """Compare steps of ten rows that Spark decides with its plain append of the rows, in turns."""
    before = bench.spark.conf.get(SMALL_STEPS, None)
    bench.spark.conf.set(SMALL_STEPS, "spark")
    yield from _over_appends(bench, "plain", str(bench.root / "plain"), "decided by Spark", None)
    _set_back(bench, before)


def shared(bench: Bench) -> Iterator[Figure]:
    """Compare steps of ten rows on a shared store with Spark's plain append there, in turns.

    The store is the disk by a name that hides it: steps are decided in the process, and Spark
    commits them.
    """
    # What a name stands for Spark remembers for good.
    store = f"steps{uuid.uuid4().hex}"
    place = bench.root / "shared"
    place.mkdir()
    bench.spark.conf.set(f"fs.viewfs.mounttable.{store}.link./data", f"file:{place}")
    path, how = f"viewfs://{store}/data/on", "on a shared store"
    yield from _over_appends(bench, "shared", path, how, at_most(1.6))


def _over_appends(
    bench: Bench, section: str, path: str, how: str, target: Target | None
) -> Iterator[Figure]:
    times = max(5, bench.rounds // 4)
    queue, meter = DeltaQueue.create(bench.spark, f"{path}-queue", SCHEMA, CONFIG), Meter()
    for number in range(times + WARM):
        if number == WARM:
            meter.taken.clear()
        frame = _frame(bench, number, ROWS)
        append = frame.write.format("delta").mode("append")
        meter.time("append", partial(append.save, f"{path}-table"))
        named = append.option("txnAppId", "steps").option("txnVersion", number)
        meter.time("fenced", partial(named.save, f"{path}-fenced"))
        _steps(queue, frame, meter)
    detail = f"ten rows, {how}, over Spark's plain append of them, {times} in turns"
    for name in _STEPS:
        yield from compared(meter, name, "append", section=section, target=target, detail=detail)
    # What a step is more is its number, by which Delta tells that nobody else has made it.
    detail = "an append that names a transaction, over a plain one"
    yield from compared(meter, "fenced", "append", section=section, target=None, detail=detail)
    yield millis(f"{section}.append", meter.waits("append"), None, "a plain append by Spark")


def _steps(queue: DeltaQueue, frame: DataFrame, meter: Meter) -> None:
    meter.time("enqueue", partial(queue.enqueue, frame))
    claim: Claim = meter.time("claim", partial(queue.claim, ROWS))
    meter.time("settle", claim.ack)


def _frame(bench: Bench, number: int, count: int) -> DataFrame:
    given = [tuple(row.values()) for row in rows(number, count)]
    return bench.spark.createDataFrame(given, SCHEMA)


def _set_back(bench: Bench, before: str | None) -> None:
    if before is None:
        bench.spark.conf.unset(SMALL_STEPS)
    else:
        bench.spark.conf.set(SMALL_STEPS, before)
