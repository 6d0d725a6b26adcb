"""Measure what upkeep in the background makes of small steps, without Spark.

The slowest of the steps after ten thousand over that of the first hundred: the log is summed up and
its files are merged meanwhile, by the thread of the process. Prints one JSON line for each figure
and a table at the end, as ``core.py`` does.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Literal

import typer

from report import Figure, at_most, measure
from spark_queue import LocalQueue, QueueConfig

#: Steps at each end that are compared. So many hundreds there are at the end, so that a chore falls
#: into some of them.
_PART, _LAST = 100, 10


def long_log(durability: Literal["disk", "process"], steps: int) -> Iterator[Figure]:
    """Compare the steps at the end of a long log with the first: enqueue, claim and ack of one."""
    with tempfile.TemporaryDirectory(prefix="upkeep-") as root:
        config = QueueConfig(dedup_key="id", fair_key="tenant")
        schema = "id string, tenant string"
        queue = LocalQueue.create(f"{root}/q", schema, config, durability=durability)
        took = [_round(queue, number) for number in range(steps // 3 + 3)][3:]
        queue.close()
    rounds = _PART // 3
    flat = [step for part in took for step in part]
    first, last = took[:rounds], took[-_LAST * rounds :]
    name = "synced" if durability == "disk" else "unsynced"
    for which, of in (("p50", statistics.median), ("p99", _p99)):
        # The kinds of steps are apart, as each costs something else.
        ratios = [of([r[k] for r in last]) / of([r[k] for r in first]) for k in range(3)]
        target = at_most(1.5) if which == "p99" else None
        detail = (
            f"{which} of the last {3 * len(last)} of {len(flat):,} steps over the first {_PART}"
        )
        yield Figure(f"long_log.{name}.{which}", max(ratios), target, "x", f"{detail}, worst kind")
        whole = of([s for r in last for s in r]) / of([s for r in first for s in r])
        yield Figure(f"long_log.{name}.{which}.all", whole, target, "x", f"{detail}, all kinds")
    millis = 1000 * _p99([s for r in last for s in r])
    yield Figure(f"long_log.{name}.last.ms", millis, None, "ms", "p99 of the last")


def _round(queue: LocalQueue, number: int) -> list[float]:
    took, began = [], time.perf_counter()
    queue.enqueue({"id": str(number), "tenant": f"t{number % 7}"})
    took.append(time.perf_counter() - began)
    began = time.perf_counter()
    claim = queue.claim(1)
    took.append(time.perf_counter() - began)
    began = time.perf_counter()
    claim.ack()
    return [*took, time.perf_counter() - began]


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[98]


def main(
    only: Annotated[
        list[str] | None, typer.Option(help="Measure this: synced, unsynced; repeatable.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer steps.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print no table.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on a missed target.")] = False,
) -> None:
    """Compare small steps at both ends of a long log."""
    steps = 2_000 if quick else 10_000
    sections = {
        "unsynced": partial(long_log, "process", steps),
        "synced": partial(long_log, "disk", steps),
    }
    raise typer.Exit(measure(sections, only, as_json=as_json, strict=strict))


if __name__ == "__main__":
    typer.run(main)
