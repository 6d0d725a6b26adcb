"""Measure what lies between small steps and bulk: ``process`` and ``maintain`` in a session.

``process`` is measured over the bare work of the same chunks in the same run: Spark reads the rows,
runs the handler as ``process`` does, and appends the results to a table of Delta. Beside the
seconds are those that processors worked, with the JVM and its workers of Python. Prints one JSON
line for each figure and a table at the end, as ``core.py`` does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from pyspark.sql import DataFrame, SparkSession, Window, functions as F

from place import session_and_folder
from report import Figure, Target, at_least, at_most, measure, median_figure, ratio_figure
from small_steps import Meter, worked_below
from spark_queue import DeltaQueue, QueueConfig
from spark_queue.processing.executor import outcomes, run_items

SCHEMA = "path string, tenant string, folder string"
RETURNS = "length long"
CONFIG = QueueConfig(fair_key="tenant", lease=timedelta(hours=2))

#: Rows of a small enqueue, and items of a small queue.
FEW, SMALL = 10, 1_000


@dataclass(frozen=True)
class Bench:
    """Where to measure, how often, and how much smaller than the targets say."""

    spark: SparkSession
    root: Path
    scale: float
    rounds: int

    def rows(self, full: int) -> int:
        """Return a number of rows at the scale of this run."""
        return max(100, int(full * self.scale))

    def frame(self, rows: int, start: int = 0) -> DataFrame:
        """Make rows of a thousand tenants."""
        number = F.col("id")
        named = (("path", number), ("tenant", number % 1_000), ("folder", number % 7))
        columns = [F.concat(F.lit(f"{name}-"), of.cast("string")).alias(name) for name, of in named]
        return self.spark.range(start, start + rows, numPartitions=2).select(*columns)

    def queue(self, name: str, rows: int) -> DeltaQueue:
        """Make a queue with so many items."""
        queue = DeltaQueue.create(self.spark, str(self.root / name), SCHEMA, CONFIG)
        queue.enqueue(self.frame(rows))
        return queue


def length_of(item: Mapping[str, Any]) -> dict[str, int]:
    """Do as little as a handler with a result can."""
    return {"length": len(item["path"])}


def middle(bench: Bench) -> Iterator[Figure]:
    """Drain 300,000 items, 50,000 a claim."""
    size = bench.rows(50_000)
    yield from _drained(bench, "middle", 6 * size, size, at_most(1.3), {"limit": size})


def large(bench: Bench) -> Iterator[Figure]:
    """Drain two million items, a million a claim."""
    size = bench.rows(1_000_000)
    yield from _drained(bench, "large", 2 * size, size, None, {"limit": size}, at_least(50_000))


def _drained(
    bench: Bench,
    name: str,
    items: int,
    size: int,
    target: Target | None,
    options: Mapping[str, Any],
    rate: Target | None = None,
) -> Iterator[Figure]:
    """Compare a drain with the bare work of its chunks."""
    queue, source = bench.queue(f"{name}-queue", items), str(bench.root / f"{name}-source")
    numbered = F.row_number().over(Window.orderBy("path")) - 1
    bench.frame(items).withColumn("_seq", numbered.cast("long")).write.format("delta").save(source)
    meter = Meter(work=worked_below)
    warm = bench.queue(f"{name}-warm", 3 * FEW)
    warm.process(length_of, returns=RETURNS, output=str(bench.root / f"{name}-warmed"), limit=FEW)
    _bare(bench, source, str(bench.root / f"{name}-bare-warmed"), 3 * FEW, FEW)
    meter.time("bare", partial(_bare, bench, source, str(bench.root / f"{name}-bare"), items, size))
    output = str(bench.root / f"{name}-output")
    done = meter.time(
        "process", partial(queue.process, length_of, returns=RETURNS, output=output, **options)
    )
    written = bench.spark.read.format("delta").load(output).count()
    if (done.acked, written) != (items, items):
        raise AssertionError(f"{name}: {done.acked} of {items} items are done, {written} written")
    detail = f"{items} items, {size} a claim, over the bare work of the chunks"
    yield ratio_figure(
        f"{name}.process", meter.waits("process"), meter.waits("bare"), target, detail
    )
    works = meter.works("process"), meter.works("bare")
    yield ratio_figure(f"{name}.process.work", *works, None, f"{detail}, seconds of processors")
    for what in ("process", "bare"):
        (wait,), (work,) = meter.waits(what), meter.works(what)
        found = rate if what == "process" else None
        detail = f"{items} items, {size} a claim: {wait:.1f} s, {work:.1f} s of processors"
        yield Figure(f"{name}.{what}.rate", items / wait, found, "items/s", detail)


def _bare(bench: Bench, source: str, to: str, items: int, size: int) -> None:
    """Do the work of a drain by hand: read a chunk, run the handler, append the results."""
    spark, columns = bench.spark, bench.spark.createDataFrame([], RETURNS).schema
    run = run_items(length_of, columns)
    for first in range(0, items, size):
        rows = spark.read.format("delta").load(source)
        rows = rows.where(F.col("_seq").between(first, first + size - 1))
        rows = rows.withColumn("_group_key", F.lit(None).cast("string"))
        done = rows.mapInArrow(run, outcomes(columns))
        done.select("result.*", "_seq").write.format("delta").mode("append").save(to)


def maintain(bench: Bench) -> Iterator[Figure]:
    """Keep a queue of 1,000 items in order: with nothing to do, and with a checkpoint due."""
    queue, meter = bench.queue("maintained", SMALL), Meter(work=worked_below)
    queue.claim(FEW).ack()
    queue.maintain()
    for _ in range(bench.rounds):
        meter.time("idle", queue.maintain)
        queue.claim(FEW).ack()
        meter.time("due", queue.maintain)
    for name, bound in (("idle", 0.5), ("due", 2.0)):
        detail = (
            f"{SMALL} items, {name}, {bench.rounds} times: "
            f"{median(meter.works(name)):.2f} s of processors"
        )
        yield median_figure(f"maintain.{name}", meter.waits(name), at_most(bound), detail, "s")


def enqueue(bench: Bench) -> Iterator[Figure]:
    """Enqueue ten rows of a frame; beside it Spark appends them."""
    queue, meter = bench.queue("enqueued", SMALL), Meter(work=worked_below)
    for number in range(bench.rounds + 3):
        if number == 3:  # noqa: PLR2004 - the first are slower
            meter.taken.clear()
        given = [(f"path-{number}-{i}", f"tenant-{i}", f"folder-{i}") for i in range(FEW)]
        frame = bench.spark.createDataFrame(given, SCHEMA)
        append = frame.write.format("delta").mode("append")
        meter.time("append", partial(append.save, str(bench.root / "appended")))
        meter.time("enqueue", partial(queue.enqueue, frame))
    detail = f"ten rows of a frame, over Spark's append of them, {bench.rounds} in turns"
    for what, times, target in (
        ("enqueue", meter.waits, at_most(0.6)),
        ("enqueue.work", meter.works, None),
    ):
        yield ratio_figure(what, times("enqueue"), times("append"), target, detail)


def batch(bench: Bench) -> Iterator[Figure]:
    """Enqueue 50,000 rows that are distinct, in turns and in groups; Spark appends them beside."""
    meter, size = Meter(work=worked_below), bench.rows(50_000)
    config = QueueConfig(dedup_key="path", fair_key="tenant", group_key="folder")
    for number in range(bench.rounds):
        queue = DeltaQueue.create(bench.spark, str(bench.root / f"batch-{number}"), SCHEMA, config)
        queue.enqueue(bench.frame(FEW, start=size))
        source = str(bench.root / f"batch-{number}-source")
        bench.frame(size).write.parquet(source)
        frame = bench.spark.read.parquet(source)
        append = frame.write.format("delta").mode("append")
        meter.time("append", partial(append.save, str(bench.root / "batch-appended")))
        meter.time("enqueue", partial(queue.enqueue, frame))
    detail = f"{size} rows, over Spark's append of them, {bench.rounds} in turns"
    yield ratio_figure("batch", meter.waits("enqueue"), meter.waits("append"), at_most(3.0), detail)


SECTIONS: dict[str, Callable[[Bench], Iterable[Figure]]] = {
    "middle": middle,
    "large": large,
    "maintain": maintain,
    "enqueue": enqueue,
    "batch": batch,
}


def main(
    only: Annotated[
        list[str] | None, typer.Option(help=f"Measure this: {', '.join(SECTIONS)}; repeatable.")
    ] = None,
    scale: Annotated[float, typer.Option(min=1e-4, help="How much of the full size.")] = 1.0,
    rounds: Annotated[int, typer.Option(min=2, help="How often small things are done.")] = 10,
    place: Annotated[Path | None, typer.Option(help="A folder on the disk to measure.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print no table.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on a missed target.")] = False,
) -> None:
    """Compare process, maintain and small enqueues with the bare work of Spark."""
    with session_and_folder("middle", place) as (spark, root):
        bench = Bench(spark, root, scale, rounds)
        sections = {name: partial(section, bench) for name, section in SECTIONS.items()}
        code = measure(sections, only, as_json=as_json, strict=strict)
    sys.exit(code)


if __name__ == "__main__":
    typer.run(main)
