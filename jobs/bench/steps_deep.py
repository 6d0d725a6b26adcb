"""What a large queue makes of a small step: millions that wait, and millions that are over."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
import typer

from report import Figure, at_most, ratio_figure
from small_steps import SCHEMA, Meter
from spark_queue import DeltaQueue, LocalQueue, QueueConfig, SparkNeededError
from spark_queue.queue_views import store_of
from steps_bench import WARM, Bench, alone, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CONFIG = QueueConfig(dedup_key="path", fair_key="tenant")

#: What is over, what waits beside it, and what is open in the replica that is built.
_OVER, _READY, _OPEN = 10_000_000, 10_000_000, 100_000

#: What waits in the small queue.
_FEW = 10_000

#: Items that one claim works off.
_CLAIM = 1_000_000

#: A number that no large frame has rows of.
_LATER = 1_000_000_000

Queue = DeltaQueue | LocalQueue


def deep(bench: Bench) -> Iterator[Figure]:
    """Work off millions and build what a process knows; then claim and enqueue beside millions."""
    over, ready, few = bench.rows(_OVER), bench.rows(_READY), bench.rows(_OPEN)
    big = DeltaQueue.create(bench.spark, str(bench.root / "big"), SCHEMA, _CONFIG)
    big.enqueue(_frame(bench, 0, over))
    while (claim := big.claim(bench.rows(_CLAIM))).count:
        claim.ack()
    big.enqueue(_frame(bench, over, few))
    big.maintain()
    yield from _built(bench, big, few, over)
    big.enqueue(_frame(bench, over + few, ready - few))
    big.maintain()
    little = DeltaQueue.create(bench.spark, str(bench.root / "little"), SCHEMA, _CONFIG)
    little.enqueue(_frame(bench, 0, _FEW))
    sides = f"{ready:,} ready and {over:,} over, beside {_FEW:,} ready, warm"
    yield from _beside("deep", big, little, bench, sides)
    pair = (LocalQueue.open(big.name), LocalQueue.open(little.name))
    yield from _where_it_can("deep.alone", partial(_beside, "deep.alone", *pair, bench, sides))


def _where_it_can(name: str, figures: Callable[[], Iterator[Figure]]) -> Iterator[Figure]:
    try:
        yield from figures()
    except SparkNeededError as refused:
        typer.echo(f"{name} is left out: {refused}", err=True)


def _built(bench: Bench, queue: DeltaQueue, few: int, over: int) -> Iterator[Figure]:
    """Measure the first step of a process that knows nothing, and what it then remembers."""
    detail = f"{few:,} open behind {over:,} that are over, compacted; the first claim of a process"
    for name, opened in (
        ("session", lambda: DeltaQueue.open(bench.spark, queue.name)),
        ("alone", lambda: LocalQueue.open(queue.name)),
    ):
        yield from _where_it_can(f"replica.{name}", partial(_first, name, opened, few, detail))


def _first(name: str, opened: Callable[[], Queue], few: int, detail: str) -> Iterator[Figure]:
    meter, known = Meter(), store_of(opened())
    known.forget()
    meter.time("build", lambda: opened().claim(1).release())
    if known.position().replica is None:
        detail = f"{detail}; decided by Spark"
    yield Figure(f"replica.{name}", meter.waits("build")[0], at_most(5), "s", detail)
    yield Figure(f"replica.{name}.work", meter.works("build")[0], None, "s", detail)
    known.forget()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes()
    kept = opened()
    kept.claim(1).release()
    grown = tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - before
    tracemalloc.stop()
    yield Figure(f"replica.{name}.bytes", grown / few, at_most(1_024), "bytes an item", detail)


def _beside(name: str, big: Queue, little: Queue, bench: Bench, sides: str) -> Iterator[Figure]:
    """Compare a claim of ten, and an enqueue of one, in a large and in a small queue, in turns."""
    claims, enqueues, numbers = alone(), alone(), count(_LATER)
    for turn in range(bench.rounds + WARM):
        if turn == WARM:
            claims.taken.clear()
            enqueues.taken.clear()
        for which, queue in (("big", big), ("little", little)):
            claims.time(which, partial(queue.claim, 10)).ack()
            row = pa.Table.from_pylist(rows(next(numbers), 1))
            enqueues.time(which, partial(queue.enqueue, row))
    for what, meter, bound in (("claim", claims, 1.3), ("enqueue", enqueues, 3)):
        ratio = meter.waits("big"), meter.waits("little")
        yield ratio_figure(f"{name}.{what}", *ratio, at_most(bound), sides)


def _frame(bench: Bench, start: int, number: int) -> DataFrame:
    texts = {
        "path": "concat('/landing/files/', id)",
        "tenant": "concat('tenant-', id % 1000)",
        "folder": "concat('folder-', id % 5000)",
    }
    numbers = bench.spark.range(start, start + number, numPartitions=4)
    return numbers.selectExpr(*(f"{text} as {name}" for name, text in texts.items()))
