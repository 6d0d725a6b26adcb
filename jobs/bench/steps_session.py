"""Small steps of a queue in a session of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from appends import Contender
from report import Figure, at_most
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
    """Compare steps of ten rows that Spark makes with its plain append of the rows, in turns."""
    path, times = bench.root / "plain", max(3, bench.rounds // 8)
    before = bench.spark.conf.get(SMALL_STEPS, None)
    bench.spark.conf.set(SMALL_STEPS, "spark")
    queue, meter = DeltaQueue.create(bench.spark, f"{path}-queue", SCHEMA, CONFIG), Meter()
    for number in range(times + WARM):
        if number == WARM:
            meter.taken.clear()
        frame = _frame(bench, number, ROWS)
        append = frame.write.format("delta").mode("append").save
        meter.time("append", partial(append, f"{path}-table"))
        _steps(queue, frame, meter)
    _set_back(bench, before)
    detail = f"ten rows, by Spark, over its plain append of them, {times} in turns"
    for name in _STEPS:
        at = at_most(1.6)
        yield from compared(meter, name, "append", section="plain", target=at, detail=detail)
    yield millis("plain.append", meter.waits("append"), None, "a plain append by Spark")


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
