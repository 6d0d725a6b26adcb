"""What a small step costs however much waits: one process without Spark, tables made in batches.

A queue of many open items, behind many that have finished, beside one of ten thousand. No JVM.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from spark_queue import LocalQueue, QueueConfig
from spark_queue.columns.arrow import functions
from spark_queue.log.heads import Checkpoint, following
from spark_queue.log.schema import STATUS_COLUMNS
from spark_queue.state import replica_choice

#: Items that are written as one step.
_BATCH = 1_000_000

_CONSOLE = Console(soft_wrap=True)

_NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def filled(place: Path, waiting: int, finished: int, *, distinct: bool) -> LocalQueue:
    """Make a queue of items of one line that wait behind others, which a checkpoint has passed."""
    config = QueueConfig(dedup_key="id") if distinct else QueueConfig()
    queue = LocalQueue.create(place, "id string", config)
    store = queue._store  # noqa: SLF001
    log, head = store.native("queue"), store.queue_head()
    assert log is not None  # noqa: S101
    for first in range(1, waiting + finished + 1, _BATCH):
        last = min(first + _BATCH - 1, waiting + finished)
        head = following(
            head, last_seq=last, items=last, tops={0: float(last)}, gen_since=_NOW.isoformat()
        )
        assert log.commit(head, _items(first, last, distinct=distinct), is_synced=False)  # noqa: S101
    _passed(queue, head.step, finished)
    # To follow steps of that size is not what is measured.
    store.forget()
    return LocalQueue.open(place)


def _items(first: int, last: int, *, distinct: bool) -> pa.Table:
    count, seqs = last - first + 1, pa.array(range(first, last + 1), pa.int64())
    ids = seqs.cast(pa.string())
    columns = {
        "_gen": pa.repeat(pa.scalar(0, pa.int32()), count),
        "_kind": pa.repeat("item", count),
        "_seq": seqs,
        "_priority": pa.repeat(pa.scalar(0, pa.int32()), count),
        "_round": seqs.cast(pa.float64()),
        "_cost": pa.repeat(1.0, count),
        "_enqueued_at": pa.repeat(pa.scalar(_NOW, pa.timestamp("us", "UTC")), count),
        "id": ids,
    }
    if distinct:
        columns |= {"_dedup_key": ids, "_dedup_hash": functions.hash_texts(ids)}
    return pa.table(columns)


def _passed(queue: LocalQueue, step: int, finished: int) -> None:
    """Let a checkpoint say that items have finished, as a fold of their rows would."""
    if not finished:
        return
    store = queue._store  # noqa: SLF001
    log, head = store.native("status"), store.status_head()
    assert log is not None  # noqa: S101
    pointers = {0: (float(finished), finished)}
    known = Checkpoint(step=head.step + 1, queue_step=step, pointers=pointers)
    head = following(head, checkpoint=known, pointers=pointers, finished={"acked": finished})
    none = STATUS_COLUMNS.arrow.empty_table()
    assert log.commit(head, none, is_synced=False)  # noqa: S101


def timed(step: Callable[[], object], times: int) -> float:
    """Return the median of milliseconds that a step takes, without the first."""
    taken = []
    for _ in range(times + 1):
        began = time.perf_counter()
        step()
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken[1:])


def main() -> None:
    """Print a table of milliseconds, and of memory."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--items", type=int, default=10_000_000)
    asked.add_argument("--finished", type=int, default=5_000_000)
    asked.add_argument("--times", type=int, default=100)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as place:
        claims(Path(place), given.items, given.finished, given.times)
        begins(Path(place), given.finished * 2)
        enqueues(Path(place), given.items, given.times)


def claims(place: Path, items: int, finished: int, times: int) -> None:
    """Claim ten of few, and of many behind as many."""
    small = filled(place / "few", 10_000, 0, distinct=False)
    large = filled(place / "many", items, finished, distinct=False)
    for name, queue in (("10,000", small), (f"{items:,} behind {finished:,}", large)):
        began = time.perf_counter()
        queue.claim(10).ack()
        first = time.perf_counter() - began
        taken, rows = [], []
        for _ in range(times):
            began = time.perf_counter()
            claim = queue.claim(10)
            taken.append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            assert len(claim.rows) == 10  # noqa: PLR2004, S101
            rows.append((time.perf_counter() - began) * 1000)
            claim.ack()
        _CONSOLE.print(
            f"claim of 10, {name}: first {first:.2f} s, p50 {statistics.median(taken):.1f} ms, "
            f"its rows {statistics.median(rows):.1f} ms"
        )
    known = large._store.position().replica  # noqa: SLF001
    assert known is not None  # noqa: S101
    assert known.window is not None  # noqa: S101
    rows_at_hand = known.window.rows
    if rows_at_hand is not None:
        size = rows_at_hand.nbytes / rows_at_hand.num_rows
        _CONSOLE.print(
            f"window: {replica_choice._AHEAD:,} rows of {size:.0f} bytes, {len(known.items)} items"  # noqa: SLF001
        )


def begins(place: Path, finished: int) -> None:
    """Begin with a hundred thousand open items."""
    queue = filled(place / "begins", 100_000, finished, distinct=True)
    began = time.perf_counter()
    assert queue.claim(10).count == 10  # noqa: PLR2004, S101
    claimed = time.perf_counter() - began
    queue.enqueue({"id": "new"})
    _CONSOLE.print(
        f"begins with 100,000 behind {finished:,}: to claim {claimed:.2f} s, "
        f"and to enqueue {time.perf_counter() - began - claimed:.2f} s"
    )


def enqueues(place: Path, items: int, times: int) -> None:
    """Enqueue one row into few, and into many that have a key each."""
    draw = random.Random(0)  # noqa: S311 - names of items
    for count in (10_000, items):
        queue = filled(place / f"keys{count}", count, 0, distinct=True)
        before, began = _resident(), time.perf_counter()
        queue.enqueue({"id": "first"})
        first = time.perf_counter() - began
        taken = timed(lambda q=queue: q.enqueue({"id": f"n{draw.random()}"}), times)  # type: ignore[misc]
        held = timed(lambda q=queue, n=count: q.enqueue({"id": f"{draw.randrange(n) + 1}"}), 10)  # type: ignore[misc]
        _CONSOLE.print(
            f"enqueue of one, {count:,} keys: first {first:.2f} s, p50 {taken:.1f} ms, of a key "
            f"that is held {held:.1f} ms; {(_resident() - before) >> 20} MiB more at most"
        )


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


if __name__ == "__main__":
    main()
