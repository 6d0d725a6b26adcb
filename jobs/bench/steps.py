"""Measure small steps of a durable queue on a local disk, beside the bare commit of their rows.

What a step costs beyond writing it down: one row against ``write_deltalake`` of such a row with the
same syncs, in turns; and what the size of the queue makes of a claim. Prints one JSON line for each
figure and a table at the end, as ``core.py`` does.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession

from appends import Contender
from report import Figure, at_most, measure, median_figure, ratio_figure
from small_steps import worked
from spark_queue import DeltaQueue, QueueConfig
from spark_queue.session import SMALL_STEPS_CONF, local_session

_SCHEMA = "path string, tenant string, folder string"
_CONFIG = QueueConfig(dedup_key="path", fair_key="tenant", group_key="folder")

#: Open items of the small and of the large queue.
_FEW, _MANY = 1_000, 40_000

#: Seconds of waiting, and seconds of work.
_Pair = tuple[float, float]


def one_row(spark: SparkSession, count: int) -> Iterator[Figure]:
    """Compare an enqueue, a claim and a settle of one row with the bare commit of it, in turns."""
    with tempfile.TemporaryDirectory(prefix="steps-") as root:
        queue = DeltaQueue.create(spark, f"{root}/q", _SCHEMA, _CONFIG)
        bare = Contender("deltalake", synced=True)
        taken: dict[str, list[_Pair]] = {}
        for number in range(count + 3):
            kept = taken if number >= 3 else {}  # noqa: PLR2004 - the first ones warm up
            _timed(kept, "bare", bare.step)
            _timed(kept, "enqueue", partial(queue.enqueue, _frame(spark, number, 1)))
            claim = _timed(kept, "claim", partial(queue.claim, 1))
            _timed(kept, "settle", claim.ack)
        bare.close()
    for name in ("enqueue", "claim", "settle"):
        for at, what in enumerate(("wait", "work")):
            ours, theirs = ([pair[at] for pair in taken[which]] for which in (name, "bare"))
            detail = f"a {name} of one row over a bare commit with the same syncs, {count} in turns"
            yield ratio_figure(f"one_row.{name}.{what}", ours, theirs, at_most(1), detail)
            millis = [1000 * value for value in ours]
            yield median_figure(f"one_row.{name}.{what}.ms", millis, None, detail, "ms")


def depth(spark: SparkSession, count: int) -> Iterator[Figure]:
    """Compare claims of ten with few and with many open items, in turns; and their first ones."""
    with tempfile.TemporaryDirectory(prefix="steps-") as root:
        queues = {size: _filled(spark, f"{root}/{size}", size) for size in (_FEW, _MANY)}
        firsts = {size: _seconds(partial(queue.claim, 10)) for size, queue in queues.items()}
        rounds: dict[int, list[float]] = {size: [] for size in queues}
        for _ in range(count):
            for size, queue in queues.items():
                rounds[size].append(_seconds(partial(queue.claim, 10)))
    few, many = rounds.values()
    yield median_figure(
        "depth.claim.ms", [1000 * s for s in few], at_most(50), f"ten of {_FEW:,} open", "ms"
    )
    detail = f"ten of {_MANY:,} open over ten of {_FEW:,}, warm"
    yield ratio_figure("depth.claim", many, few, at_most(1.3), detail)
    detail = f"the first claim of a process, {_MANY:,} open"
    yield Figure("depth.first", firsts[_MANY], at_most(5), "s", detail)


def _filled(spark: SparkSession, path: str, size: int) -> DeltaQueue:
    """Make a queue with so many open items, of which this process knows nothing yet."""
    queue = DeltaQueue.create(spark, path, _SCHEMA, QueueConfig(fair_key="tenant"))
    queue.enqueue(_frame(spark, 0, size))
    queue.close()
    return DeltaQueue.open(spark, path)


def _frame(spark: SparkSession, number: int, rows: int) -> Any:
    texts = (f"concat('p{number}-', id)", "concat('t', id % 50)", "concat('f', id)")
    named = zip(texts, ("path", "tenant", "folder"), strict=True)
    return spark.range(rows).selectExpr(*(f"{text} as {name}" for text, name in named))


def _timed(taken: dict[str, list[_Pair]], name: str, step: Callable[[], Any]) -> Any:
    began, work = time.perf_counter(), worked()
    done = step()
    took = time.perf_counter() - began
    taken.setdefault(name, []).append((took, worked() - work))
    return done


def _seconds(step: Callable[[], Any]) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


SECTIONS: dict[str, Callable[[SparkSession, int], Iterator[Figure]]] = {
    "one_row": one_row,
    "depth": depth,
}


def main(
    only: Annotated[
        list[str] | None, typer.Option(help=f"Measure this: {', '.join(SECTIONS)}; repeatable.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print no table.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on a missed target.")] = False,
) -> None:
    """Compare small steps with the bare commit of their rows."""
    spark = local_session("steps", quiet=True, **SMALL_STEPS_CONF)
    sections = {
        name: partial(section, spark, 10 if quick else 40) for name, section in SECTIONS.items()
    }
    code = measure(sections, only, as_json=as_json, strict=strict)
    spark.stop()
    raise typer.Exit(code)


if __name__ == "__main__":
    typer.run(main)
