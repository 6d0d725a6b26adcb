"""A queue of ten million items without Spark: seconds and memory of each verb, no JVM.

Items are distinct, in turns of a thousand keys, and serial per group. Each verb runs in a process
of its own, whose highest memory is told.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from spark_queue import LocalQueue, QueueConfig

app = typer.Typer(add_completion=False)

#: Rows that are enqueued at once.
_BATCH = 1_000_000


def enqueue(queue: LocalQueue, items: int) -> None:
    """Enqueue all items."""
    for first in range(0, items, _BATCH):
        ids = range(first, min(first + _BATCH, items))
        keys = [f"t{one % 1_000}" for one in ids]
        groups = [f"g{one // 3}" for one in ids]
        queue.enqueue(pa.table({"id": pa.array(ids, pa.int64()), "tenant": keys, "grp": groups}))


def claim(queue: LocalQueue, count: int) -> None:
    """Claim, read, and ack."""
    with queue.claim(count) as claimed:
        if len(claimed.rows) != count:
            raise RuntimeError(f"{len(claimed.rows)} items instead of {count}")


def purge(queue: LocalQueue) -> None:
    """Remove what is done."""
    queue.purge("_state = 'acked'")


#: What is measured, in this order.
VERBS: dict[str, Callable[[LocalQueue, int], Any]] = {
    "enqueue": enqueue,
    "claim of 1": lambda queue, _: claim(queue, 1),
    "claim of 1,000": lambda queue, _: claim(queue, 1_000),
    "claim of 10,000": lambda queue, _: claim(queue, 10_000),
    "claim of 100,000": lambda queue, _: claim(queue, 100_000),
    "stats": lambda queue, _: queue.stats(),
    "cancel of a tenant": lambda queue, _: queue.cancel({"tenant": "t7"}),
    "status": lambda queue, _: queue.status(),
    "purge": lambda queue, _: purge(queue),
    "maintain": lambda queue, _: queue.maintain(),
    "claim of 1 again": lambda queue, _: claim(queue, 1),
}


@app.command()
def run(
    items: Annotated[int, typer.Option(min=100_000, help="How many items.")] = 10_000_000,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure each verb."""
    started = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="large-") as temporary:
        place = str(Path(temporary, "q"))
        config = QueueConfig(dedup_key="id", fair_key="tenant", group_key="grp")
        LocalQueue.create(place, "id long, tenant string, grp string", config)
        found = {}
        for name in VERBS:
            ours, theirs = started.Pipe()
            child = started.Process(target=_measure, args=(theirs, place, name, items))
            child.start()
            theirs.close()
            try:
                seconds, gib, error = ours.recv()
            except EOFError:
                seconds, gib, error = 0.0, 0.0, "killed"
            child.join()
            found[name] = {"seconds": round(seconds, 2), "gib": round(gib, 2), "error": error}
            if not as_json:
                typer.echo(f"{name:<20} {seconds:8.2f} s {gib:6.2f} GiB {error}")
                sys.stdout.flush()
    if as_json:
        typer.echo(json.dumps(found))


def _measure(told: Any, place: str, name: str, items: int) -> None:
    queue, error = LocalQueue.open(place), ""
    began = time.perf_counter()
    try:
        VERBS[name](queue, items)
    except Exception as exc:  # noqa: BLE001 - it is the finding
        error = f"{type(exc).__name__}: {exc}"
    seconds = time.perf_counter() - began
    told.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2, error))


if __name__ == "__main__":
    app()
