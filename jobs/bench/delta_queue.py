"""Measure the durable queue: what an enqueue, a claim and a drain cost, at size and at depth.

Every figure is a ratio of two times of one run, or a rate beside its target. At full size this
takes about an hour on two cores; ``--scale`` makes every frame smaller.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pyspark.sql import DataFrame, SparkSession, Window, functions as F

from place import session_and_folder
from report import Figure, Target, at_least, at_most, measure, ratio_figure, rounds, seconds
from spark_queue import DeltaQueue, QueueConfig
from spark_queue.processing.loop import ProcessResult

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "path string, tenant string, folder string"

TENANTS = 1_000

#: How far a lease reaches: nothing here is to be lost by being slow.
LEASE = timedelta(hours=12)

DISTINCT_FAIR = QueueConfig(dedup_key="path", fair_key="tenant", lease=LEASE)

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Bench:
    """Where to measure, and how much smaller than the targets say."""

    spark: SparkSession
    root: Path
    scale: float
    repeats: int

    def rows(self, full: int) -> int:
        """Return a number of rows at the scale of this run."""
        return max(100, int(full * self.scale))

    def frame(self, rows: int, start: int = 0) -> DataFrame:
        """Make rows of distinct paths; a few tenants have most of them, as tenants do."""
        number = F.col("id")
        # The square of an even draw: a tenth of the tenants has a third of the rows.
        draw = F.pmod(F.xxhash64("id"), F.lit(1_000_000)) / 1_000_000
        tenant = F.floor(draw * draw * TENANTS).cast("string")
        return self.spark.range(start, start + rows, numPartitions=4).select(
            F.concat(F.lit("/landing/files/"), number.cast("string")).alias("path"),
            F.concat(F.lit("tenant-"), tenant).alias("tenant"),
            F.concat(F.lit("folder-"), F.pmod(number, F.lit(1_000)).cast("string")).alias("folder"),
        )

    def stored(self, rows: int, start: int = 0) -> DataFrame:
        """Make such rows as a table, so that those who read them pay the same."""
        path = str(self.root / f"source-{start}-{rows}")
        if not Path(path).exists():
            self.frame(rows, start).write.parquet(path)
        return self.spark.read.parquet(path)

    def queue(self, name: str, config: QueueConfig = DISTINCT_FAIR) -> DeltaQueue:
        """Make an empty queue."""
        return DeltaQueue.create(self.spark, str(self.root / name), SCHEMA, config)

    @contextmanager
    def filled(self, name: str, *frames: DataFrame, config: QueueConfig) -> Iterator[DeltaQueue]:
        """Make a queue with the rows of some frames, an enqueue each, while it is used."""
        queue = self.queue(name, config)
        for frame in frames:
            queue.enqueue(frame)
        yield queue
        DeltaQueue.drop(self.spark, queue.name)


def enqueue(bench: Bench) -> Iterable[Figure]:
    """Enqueue 10 M rows; beside it, what a user would run by hand for the same three things."""
    rows = bench.rows(10_000_000)
    source = bench.stored(rows)
    contenders = {
        "queue": lambda: _enqueued(bench, source),
        "append": lambda: _appended(bench, source),
        "distinct": lambda: _ran(source.dropDuplicates(["path"])),
        "rank": lambda: _ran(source.withColumn("rank", _rank())),
    }
    times = rounds(contenders, bench.repeats)
    bare = [sum(three) for three in zip(*(times[n] for n in list(times)[1:]), strict=True)]
    parts = ", ".join(f"{name} {min(found):.1f} s" for name, found in times.items())
    yield ratio_figure("enqueue.bulk", times["queue"], bare, at_most(1.5), f"{rows} rows: {parts}")


def _rank() -> Any:
    return F.row_number().over(Window.partitionBy("tenant").orderBy("path"))


def _enqueued(bench: Bench, source: DataFrame) -> float:
    queue = bench.queue("enqueue")
    taken = seconds(lambda: queue.enqueue(source))
    DeltaQueue.drop(bench.spark, queue.name)
    return taken


def _appended(bench: Bench, source: DataFrame) -> float:
    path = bench.root / "append"
    taken = seconds(lambda: source.write.format("delta").mode("append").save(str(path)))
    shutil.rmtree(path)
    return taken


def _ran(frame: DataFrame) -> float:
    return seconds(lambda: frame.write.format("noop").mode("overwrite").save())


def deep(bench: Bench) -> Iterable[Figure]:
    """Drain 5 M items, enqueue 10 M more, then claim and enqueue beside those."""
    live, finished = bench.rows(10_000_000), bench.rows(5_000_000)
    small = bench.rows(100_000)
    with (
        bench.filled("deep", bench.stored(finished, live), config=DISTINCT_FAIR) as big,
        bench.filled("shallow", bench.stored(small), config=DISTINCT_FAIR) as little,
    ):
        yield from _drain(big, finished, bench.rows(1_000_000))
        big.enqueue(bench.stored(live))
        big.maintain()
        yield from _beside(bench, big, little, live)


def _drain(queue: DeltaQueue, items: int, size: int) -> Iterable[Figure]:
    done: list[ProcessResult] = []
    taken = seconds(lambda: done.append(queue.process(_nothing, per="batch", limit=size)))
    if done[0].acked != items:
        raise AssertionError(f"{queue.name}: {done[0].acked} of {items} items")
    detail = f"{items} items, {size} a claim, a handler that does nothing"
    yield Figure("drain", items / taken, at_least(120_000), "items/s", detail)


def _nothing(table: pa.Table) -> None:
    """Do nothing with a table of items."""


def _beside(bench: Bench, big: DeltaQueue, little: DeltaQueue, live: int) -> Iterable[Figure]:
    limit = bench.rows(10_000)
    claims = {
        "big": lambda: _claimed(big, limit),
        "little": lambda: _claimed(little, limit),
    }
    _warm(claims)
    times = rounds(claims, bench.repeats + 2)
    detail = f"{limit} items of {live} ready beside those of a small queue with none finished"
    yield _compared("claim.deep", times, at_most(1.2), detail)
    starts = iter(range(100_000_000, 200_000_000, 1_000))
    enqueues = {
        name: lambda queue=queue: _more(bench, queue, next(starts))
        for name, queue in (("big", big), ("little", little))
    }
    _warm(enqueues)
    times = rounds(enqueues, bench.repeats + 2)
    detail = f"1,000 rows into {live} live items, beside a small queue"
    yield _compared("enqueue.trickle", times, at_most(3.0), detail)


def _compared(name: str, times: dict[str, list[float]], target: Target, detail: str) -> Figure:
    best = ", ".join(f"{key} {min(found):.2f} s" for key, found in times.items())
    return ratio_figure(name, times["big"], times["little"], target, f"{detail}: {best}")


def _warm(contenders: Mapping[str, Callable[[], float]]) -> None:
    for contender in contenders.values():
        contender()


def _claimed(queue: DeltaQueue, limit: int) -> float:
    claims = []
    taken = seconds(lambda: claims.append(queue.claim(limit, lease=LEASE)))
    if claims[0].count != limit:
        raise AssertionError(f"{queue.name}: {claims[0].count} items, not {limit}")
    claims[0].ack()
    return taken


def _more(bench: Bench, queue: DeltaQueue, start: int) -> float:
    frame = bench.frame(1_000, start).localCheckpoint()
    return seconds(lambda: queue.enqueue(frame))


def head_of_line(bench: Bench) -> Iterable[Figure]:
    """Claim past 1 M items that cannot run, in front of 1,000 small groups."""
    many = bench.rows(1_000_000)
    config = QueueConfig(fair_key="tenant", group_key="folder", lease=LEASE)
    groups = bench.frame(20_000, many)
    one = bench.frame(many).withColumn("folder", F.lit("busy"))
    later = bench.frame(many).withColumns(
        {
            "available_at": F.current_timestamp() + F.expr("INTERVAL 1 DAY"),
            "folder": F.concat(F.lit("later-"), "folder"),
        }
    )
    for name, front in (("group", one), ("delayed", later)):
        with (
            bench.filled(name, front, groups, config=config) as big,
            bench.filled(f"beside-{name}", groups, config=config) as little,
        ):
            big.claim(1, lease=LEASE)  # the head of the busy group stays in flight
            claims = {
                "big": lambda big=big: _claimed(big, 900),
                "little": lambda little=little: _claimed(little, 900),
            }
            _warm(claims)
            times = rounds(claims, bench.repeats + 2)
            detail = f"900 items of 1,000 groups behind {many}"
            yield _compared(f"claim.behind.{name}", times, at_most(1.5), detail)


def steps(bench: Bench) -> Iterable[Figure]:
    """Claim at first, and again 1,000 steps and one maintain later."""
    count = bench.rows(1_000)
    with bench.filled("steps", bench.stored(1_000_000), config=DISTINCT_FAIR) as queue:
        _claimed(queue, 1_000)
        before = [_claimed(queue, 1_000) for _ in range(bench.repeats + 2)]
        for _ in range(count // 2):
            queue.claim(100, lease=LEASE).ack()
        queue.maintain()
        _claimed(queue, 1_000)
        after = [_claimed(queue, 1_000) for _ in range(bench.repeats + 2)]
        times = {"big": after, "little": before}
        detail = f"1,000 items, {count} steps later and at first"
        yield _compared("claim.later", times, at_most(1.3), detail)


SECTIONS: dict[str, Callable[[Bench], Iterable[Figure]]] = {
    "enqueue": enqueue,
    "deep": deep,
    "head-of-line": head_of_line,
    "steps": steps,
}


@app.command(help=__doc__)
def main(
    only: Annotated[list[str] | None, typer.Option(help="Sections to run; all of them.")] = None,
    scale: Annotated[float, typer.Option(min=1e-4, help="How much of the full size.")] = 1.0,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of the large figures.")] = 1,
    place: Annotated[Path | None, typer.Option(help="Where to put the tables.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="No table at the end.")] = False,
    strict: Annotated[bool, typer.Option(help="Fail when a target is missed.")] = False,
) -> None:
    """Measure, print a JSON line for each figure, and a table."""
    with session_and_folder("delta-queue", place) as (spark, root):
        bench = Bench(spark, root, scale, repeats)
        sections = {name: (lambda run=run: run(bench)) for name, run in SECTIONS.items()}
        code = measure(sections, only, as_json=as_json, strict=strict)
    sys.exit(code)


if __name__ == "__main__":
    app()
