"""``spark-queue demo``: a flood, a worker that is killed, and a file that is broken."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.bar import Bar
from rich.console import RenderableType
from rich.table import Table
from typer import Option

from spark_queue.cli import show_report
from spark_queue.cli.command import command
from spark_queue.cli.commands import serving
from spark_queue.cli.display import Whole, compact_table
from spark_queue.cli.progress import claim_progress
from spark_queue.cli.scope import Scope
from spark_queue.cli.words import duration

if TYPE_CHECKING:
    from spark_queue.local_queue import LocalQueue

#: Files of each tenant, in the order in which they come.
_FILES = {"flood": 1_000, "ann": 6, "bob": 6}

#: The file that cannot be read, whoever tries.
_BROKEN = "bob/3.csv"

#: Items that the first worker has begun when it is killed, and how long it may take for that.
_BEGUN, _PATIENCE = 40, 30.0

#: Seconds that the report shows at least.
_LEAST = 30

_SCHEMA = "path string, tenant string, account string"


def load(item: Mapping[str, Any]) -> dict[str, Any]:
    """Load a file: the handler of the demo."""
    time.sleep(0.01)
    if item["path"] == _BROKEN:
        raise ValueError("line 7 has 4 columns")
    return {"rows": len(item["path"])}


def work(place: str) -> None:
    """Work a queue off, in the process that is killed."""
    from spark_queue.local_queue import LocalQueue  # noqa: PLC0415 - help works without Arrow

    LocalQueue.open(place).process(load, limit=25, returns="rows int", output=f"{place}/rows")


@command
def demo(
    scope: Scope,
    *,
    keep: Annotated[
        Path | None,
        Option(
            help="Make the queue here, and leave it with its report; else in a temporary place."
        ),
    ] = None,
    spark: Annotated[bool, Option("--spark", help="Let Spark do the rest.")] = False,
    show: Annotated[
        bool, Option("--open", help="Show the queue in a browser at the end, until Ctrl-C.")
    ] = False,
) -> None:
    """See a queue at work in half a minute: one tenant floods it, a worker dies, a file is broken.

    Nothing is needed but this machine's disk; nothing is left there without --keep.
    """
    if show:
        serving.require_installed()
    root = Path(tempfile.mkdtemp(prefix="spark-queue-")) if keep is None else keep.absolute()
    began = time.monotonic()
    try:
        place = str(root / "files")
        queue = _fill(place)
        killed = _kill_worker(queue, place)
        _finish(scope, queue, place, spark=spark)
        told = _tell(queue, killed)
        window = timedelta(seconds=max(_LEAST, math.ceil(time.monotonic() - began)))
        report = queue.report(window=window)
        parts = [*_story(told), "", *show_report.report(report)]
        if keep is not None:
            page = root / "report.html"
            page.write_text(report.html(), encoding="utf-8")
            parts += ["", "the same with a chart of what came and went:", Whole(f"  {page}")]
        scope.display.show({**told, "queue": place, "report": report.as_dict()}, *parts)
        if show:
            serving.serve_queues(scope, [place], port=0, show=True)
    finally:
        if keep is None:
            shutil.rmtree(root, ignore_errors=True)


def _fill(place: str) -> LocalQueue:
    """Make the queue, and enqueue the files: the flood comes first."""
    from spark_queue.config import QueueConfig  # noqa: PLC0415 - as above
    from spark_queue.local_queue import LocalQueue  # noqa: PLC0415 - as above
    from spark_queue.retry_policy import RetryPolicy  # noqa: PLC0415 - as above

    config = QueueConfig(
        dedup_key="path",
        fair_key="tenant",
        group_key="account",
        max_attempts=2,
        retry=RetryPolicy(delay=timedelta(0)),
    )
    queue = LocalQueue.create(place, _SCHEMA, config)
    for tenant, count in _FILES.items():
        names = [
            {"path": f"{tenant}/{n}.csv", "tenant": tenant, "account": f"{tenant}-{n % 50}"}
            for n in range(count)
        ]
        queue.enqueue(names)
    return queue


def _kill_worker(queue: LocalQueue, place: str) -> dict[str, Any]:
    """Start a worker, kill it in the midst, and return the items it held."""
    words = f"from spark_queue.cli.commands.demo import work; work({place!r})"
    with subprocess.Popen([sys.executable, "-c", words]) as worker:  # noqa: S603 - our own words
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until and worker.poll() is None:
            counts = queue.counts()
            if counts["claimed"] and counts["acked"] + counts["claimed"] >= _BEGUN:
                break
            time.sleep(0.02)
        worker.kill()
    counts = queue.counts()
    return {"pid": worker.pid, "held": counts["claimed"], "done": counts["acked"]}


def _finish(scope: Scope, queue: LocalQueue, place: str, *, spark: bool) -> None:
    """Process the remaining items, and those of the dead worker."""
    left = queue.counts()["ready"] + queue.counts()["claimed"]
    with claim_progress(scope.display, lambda: left, each=False) as tell:
        options: dict[str, Any] = {"returns": "rows int", "output": f"{place}/rows"}
        if spark:
            scope.queue(place).process(load, **options, on_claim=tell)
        else:
            queue.process(load, **options, limit=50, max_workers=4, on_claim=tell)


def _tell(queue: LocalQueue, killed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fates of the worker, of each tenant and of the broken file."""
    items = queue.status().to_pylist()
    dead = queue.dead().to_pylist()
    return {
        "killed": dict(killed),
        "acked": sum(item["_state"] == "acked" for item in items),
        "tenants": _waits(items),
        "dead": [
            {"path": one["path"], "attempts": one["_attempts"], "error": _last_line(one["_error"])}
            for one in dead
        ],
    }


def _waits(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return how long the files of each tenant waited, and how long they would have in one line.

    In one line the same starts are given to the items in the order in which they came.
    """
    starts: list[datetime] = sorted(item["_first_claimed_at"] for item in items)
    told = []
    for tenant in _FILES:
        own = [
            (item["_first_claimed_at"], start, item["_enqueued_at"])
            for item, start in zip(items, starts, strict=True)
            if item["tenant"] == tenant
        ]
        waited = max((claimed - came).total_seconds() for claimed, _, came in own)
        in_line = max((start - came).total_seconds() for _, start, came in own)
        told.append({"tenant": tenant, "files": len(own), "waited": waited, "in_line": in_line})
    return told


def _last_line(error: str | None) -> str:
    return (error or "").strip().splitlines()[-1] if error else ""


def _story(told: Mapping[str, Any]) -> list[RenderableType]:
    """Say what happened."""
    killed, (letter,) = told["killed"], told["dead"]
    came = [f"{count} of {tenant}" for tenant, count in _FILES.items()]
    return [
        f"{sum(_FILES.values())} files came: {', then '.join(came)}",
        f"worker {killed['pid']} was killed with {killed['held']} files; the next claim took them",
        f"{letter['path']} failed {letter['attempts']} times and was set aside: {letter['error']}",
        f"{told['acked']} files are loaded, each of them once",
        "",
        "the longest wait of each tenant, in turns; and in one line, as the files came:",
        _chart(told["tenants"]),
    ]


def _chart(tenants: Sequence[Mapping[str, Any]]) -> Table:
    most = max(max(row["waited"], row["in_line"]) for row in tenants) or 1.0
    table = compact_table()
    for head in ("tenant", "", "wait", ""):
        table.add_column(head, no_wrap=True)
    for row in tenants:
        for name, kind in (("waited", "in turns"), ("in_line", "in line")):
            head = row["tenant"] if name == "waited" else ""
            bar = Bar(most, 0, row[name], width=40)
            table.add_row(head, kind, duration(row[name]), bar)
    return table
