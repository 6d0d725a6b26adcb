"""Measure reports of large queues on a local disk, without Spark.

A queue of a million items with three million transitions, and one of a hundred thousand, are
reported by the command in a process of its own; one with a hundred thousand open items is looked at
again and again, as ``spark-queue top`` and ``serve`` do. Prints one JSON line for each figure and a
table at the end, as ``core.py`` does.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console, Group
from starlette.testclient import TestClient

from compiled import environment
from report import Figure, at_most, measure
from spark_queue import LocalQueue, QueueConfig
from spark_queue.cli import show_report
from spark_queue.log.delta.log import Log
from spark_queue.log.heads import following
from spark_queue.queue_views import store_of
from spark_queue.report.following import follow, id_of
from spark_queue.serve.guard import LOOPBACK
from spark_queue.serve.site import Site
from spark_queue.serve.watching import FOR_A_REFRESH, Board, OpenedQueue

#: Items of one step, and the tenants, groups and workers that they are of.
_STEP = 10_000
_TENANTS, _GROUPS, _WORKERS = 200, 20_000, 16

#: Seconds that the history of a queue covers, and that its items wait and take.
_HISTORY, _WAIT, _WORK = 20 * 3_600, 60, 30

_INSTANT = pa.timestamp("us", "UTC")

#: What its errors say, without what differs from item to item.
_WORDING = "ValueError: row <n> of <path>"

#: Reports of which the best is taken: what else the machine does only adds to it.
_ROUNDS = 3

#: ViewSource of which the median is taken.
_LOOKS = 7


def large() -> Iterator[Figure]:
    """Report a million items with three million transitions."""
    yield from _reported("large", 1_000_000, at_most(10), at_most(2.0))


def small() -> Iterator[Figure]:
    """Report a hundred thousand items with three hundred thousand transitions."""
    yield from _reported("small", 100_000, at_most(2), None)


def looks() -> Iterator[Figure]:
    """Look at a hundred thousand open items, to which something is done between two looks."""
    with tempfile.TemporaryDirectory(prefix="reporting-") as root:
        filled = Filled(root, 100_000)
        moved = filled.move(0.5, fails=1.0, ends=False)
        queue = filled.queue
        look, work = follow(store_of(queue)), []
        console = Console(width=120, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        for _ in range(_LOOKS + 1):
            filled.enter_next()
            began = time.process_time()
            console.print(Group(*show_report.live(look())))
            work.append(time.process_time() - began)
    detail = f"100,000 open items, {moved:,} transitions, median of {_LOOKS}"
    yield Figure("top.first.cpu", work[0], None, "s", detail.partition(", median")[0])
    yield Figure("top.look.cpu", statistics.median(work[1:]), at_most(1), "s", detail)


def pages() -> Iterator[Figure]:
    """Refresh pages of a hundred thousand open items, to which something is done meanwhile."""
    with tempfile.TemporaryDirectory(prefix="reporting-") as root:
        filled = Filled(root, 100_000)
        moved = filled.move(0.5, fails=1.0, ends=False)
        browser = _browser(filled.queue)
        asked = {
            "queue": "/queues/0",
            "tenant": f"/queues/0/tenants/{id_of('tenant-7')}",
            "error": f"/queues/0/errors/{id_of(_WORDING)}",
            "item": "/queues/0/items/7",
        }
        detail = f"100,000 open items, {moved:,} transitions, median of {_LOOKS} refreshes"
        for name, path in asked.items():
            work = list(_refreshed(filled, browser, path))
            yield Figure(
                f"pages.{name}.cpu", statistics.median(work[1:]), at_most(0.3), "s", detail
            )
        yield from _clicked(browser)


def _browser(queue: LocalQueue) -> TestClient:
    def opener(_name: str, _reader: str | None) -> OpenedQueue:
        return OpenedQueue(look=follow(store_of(queue)), operate=queue)

    app = Site(board=Board([queue.name], opener)).app(LOOPBACK)
    return TestClient(app, base_url="http://127.0.0.1")


def _refreshed(filled: Filled, browser: TestClient, path: str) -> Iterator[float]:
    """Refresh a page, each time later than what was shown is shown again."""
    for _ in range(_LOOKS + 1):
        time.sleep(FOR_A_REFRESH)
        filled.enter_next()
        began = time.process_time()
        browser.get(path, headers={"x-refresh": "1"}).raise_for_status()
        yield time.process_time() - began


def _clicked(browser: TestClient) -> Iterator[Figure]:
    """Go to the page of the queue by a link: the time that takes, and how long the page is."""
    took, page = [], b""
    for _ in range(_LOOKS):
        began = time.monotonic()
        page = browser.get("/queues/0").raise_for_status().content
        took.append(time.monotonic() - began)
    detail = f"100,000 open items, median of {_LOOKS} clicks"
    yield Figure("pages.queue.click", statistics.median(took), at_most(0.3), "s", detail)
    yield Figure("pages.queue.size", len(page) / 1024, at_most(200), "KiB", detail)


def _reported(name: str, items: int, most: Any, memory: Any) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="reporting-") as root:
        filled = Filled(root, items)
        moved = filled.move(0.95, fails=0.55, ends=True)
        took = [_told(filled.queue.name) for _ in range(_ROUNDS)]
        here = [_warm(filled.queue) for _ in range(_ROUNDS)]
    detail = (
        f"{items:,} items, {moved:,} transitions, the command in a cold process, best of {_ROUNDS}"
    )
    wall, work, peak = (min(figures) for figures in zip(*took, strict=True))
    yield Figure(f"{name}.report", wall, most, "s", detail)
    yield Figure(f"{name}.report.cpu", work, None, "s", detail)
    yield Figure(f"{name}.report.memory", peak, memory, "GiB", detail)
    wall, work = (min(figures) for figures in zip(*here, strict=True))
    detail = detail.replace("the command in a cold process", "queue.report() in a warm one")
    yield Figure(f"{name}.warm", wall, None, "s", detail)
    yield Figure(f"{name}.warm.cpu", work, None, "s", detail)


def _warm(queue: LocalQueue) -> tuple[float, float]:
    """Report a queue in this process: the seconds that takes, and those of work."""
    began, worked = time.monotonic(), time.process_time()
    queue.report()
    return time.monotonic() - began, time.process_time() - worked


def _told(path: str) -> tuple[float, float, float]:
    """Report a queue in another process: the seconds that takes, those of work, and GiB."""
    command = [sys.executable, "-m", "spark_queue.cli", "report", path, "--json"]
    began = time.monotonic()
    process = subprocess.Popen(  # noqa: S603 - our own
        command, stdout=subprocess.DEVNULL, cwd=Path(__file__).parents[2], env=environment()
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise typer.Exit(process.returncode)
    return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024**2


class Filled:
    """A queue on this disk with a history, written as its steps would be.

    Parameters
    ----------
    root : str
        Where it is made.
    items : int
        How many items were enqueued in the hours before now.
    """

    def __init__(self, root: str, items: int) -> None:
        config = QueueConfig(fair_key="tenant", group_key="path", group_limit=64, on_failure="skip")
        schema = "id bigint, tenant string, path string"
        self.queue = LocalQueue.create(f"{root}/q", schema, config, durability="process")
        self._items = items
        self._lease = 0
        self._began = datetime.now(timezone.utc) - timedelta(seconds=_HISTORY)
        for seqs in self._batches(items):
            self.enter(seqs)

    def move(self, share: float, *, fails: float, ends: bool) -> int:
        """Have the first items claimed; a share of those fails and comes again, and all may end.

        Returns
        -------
        int
            How many transitions that are.
        """
        count = 0
        for seqs in self._batches(int(self._items * share)):
            failing = seqs.slice(0, int(len(seqs) * fails))
            again = {"_attempts": pa.scalar(1, pa.int32())}
            errors = [f"ValueError: row {seq} of /data/{seq}.csv" for seq in failing.to_pylist()]
            failed = {**again, "_error": pa.array(errors)}
            count += self._step(seqs, "claimed", _WAIT, {})
            count += self._step(failing, "ready", _WAIT + _WORK, failed)
            if ends:
                count += self._step(failing, "claimed", _WAIT + 2 * _WORK, again)
                count += self._step(seqs, "acked", _WAIT + 3 * _WORK, {})
        return count

    def _batches(self, items: int) -> Iterator[pa.Array]:
        for first in range(1, items + 1, _STEP):
            yield pa.array(range(first, min(first + _STEP, items + 1)), pa.int64())

    def enter(self, seqs: pa.Array) -> None:
        """Enqueue the next items, given their numbers."""
        log, before = self._log("queue"), store_of(self.queue).queue_head()
        count = before.items + len(seqs)
        head = following(before, last_seq=count, items=count, tops={0: count / _TENANTS})
        numbers = seqs.to_pylist()
        tenants = pa.array([f"tenant-{seq % _TENANTS}" for seq in numbers])
        paths = pa.array([f"/data/{seq % _GROUPS}" for seq in numbers])
        rows = {
            **_alike({"_gen": 0, "_priority": 0}, pa.int32(), len(seqs)),
            **_alike({"_kind": "item"}, pa.string(), len(seqs)),
            **_alike({"_cost": 1.0}, pa.float64(), len(seqs)),
            "_seq": seqs,
            "_round": pc.divide(seqs.cast(pa.float64()), float(_TENANTS)),
            "_fair_key": tenants,
            "_group_key": paths,
            "_enqueued_at": self._at(seqs, 0),
            "id": seqs,
            "tenant": tenants,
            "path": paths,
        }
        _require(log.commit(head, pa.table(rows), is_synced=False))

    def enter_next(self) -> None:
        """Enqueue one item more."""
        self.enter(pa.array([store_of(self.queue).queue_head().items + 1], pa.int64()))

    def _step(self, seqs: pa.Array, state: str, after: int, more: dict[str, Any]) -> int:
        log, before = self._log("status"), store_of(self.queue).status_head()
        count = len(seqs)
        if not count:
            return 0
        done = count if state == "acked" else 0
        head = following(
            before,
            claimed=before.claimed + (count if state == "claimed" else -count),
            finished={"acked": before.finished.get("acked", 0) + done},
            log_rows=before.log_rows + count,
        )
        # What is settled is so by the claim before.
        self._lease = head.step if state == "claimed" else self._lease
        named = {name: _whole(value, count) for name, value in more.items()}
        rows = {
            **_alike({"_gen": 0, "_priority": 0, "_attempts": 0}, pa.int32(), count),
            **_alike({"_losses": 0}, pa.int32(), count),
            **_alike({"_kind": "item", "_state": state}, pa.string(), count),
            **_alike({"_lease": self._lease}, pa.int64(), count),
            "_seq": seqs,
            "_worker_id": pa.array([f"host/{1000 + n % _WORKERS}/a1b2c3" for n in range(count)]),
            "_at": self._at(seqs, after),
            "_lease_expires_at": self._at(seqs, after + 10 * _HISTORY),
            **named,
        }
        _require(log.commit(head, pa.table(rows), is_synced=False))
        return count

    def _at(self, seqs: pa.Array, after: int) -> pa.Array:
        """Return when items were enqueued, evenly over the history, and so many seconds later."""
        since = pc.divide(pc.multiply(seqs, _HISTORY * 1_000_000), self._items)
        began = int(self._began.timestamp() * 1_000_000) + after * 1_000_000
        return pc.add(since, began).cast(_INSTANT)

    def _log(self, which: Any) -> Log[Any]:
        log = store_of(self.queue).native(which)
        if log is None:
            raise RuntimeError("the queue is not on this disk")
        return log


def _require(ours: bool) -> None:  # noqa: FBT001 - what a commit says
    if not ours:
        raise RuntimeError("somebody else writes to the queue")


def _alike(values: dict[str, Any], kind: pa.DataType, count: int) -> dict[str, pa.Array]:
    return {name: pa.repeat(pa.scalar(value, kind), count) for name, value in values.items()}


def _whole(value: Any, count: int) -> pa.Array:
    return pa.repeat(value, count) if isinstance(value, pa.Scalar) else value


def main(
    only: Annotated[list[str] | None, typer.Option(help="large, small, looks, pages")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Leave the table out.")] = False,
    strict: Annotated[bool, typer.Option(help="Exit with 1 when a target is missed.")] = False,
) -> None:
    """Print the figures."""
    sections = {"large": large, "small": small, "looks": looks, "pages": pages}
    raise typer.Exit(
        measure({k: partial(v) for k, v in sections.items()}, only, as_json=as_json, strict=strict)
    )


if __name__ == "__main__":
    typer.run(main)
