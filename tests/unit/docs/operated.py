"""The queue of the operations guide, at ten past three in the morning, and what commands say of it.

All that is done to it is done at its time, by a clock of its own, so that each command prints the
same whenever it is run.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta, timezone
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from spark_queue import acting
from spark_queue.cli import main
from spark_queue.clock import ManualClock, SystemClock
from spark_queue.config import QueueConfig
from spark_queue.doctor.table import TableHere
from spark_queue.local_queue import LocalQueue
from spark_queue.retry_policy import RetryPolicy

#: The page, and where its queue is on it.
PAGE = Path(__file__).parents[3] / "docs" / "operations.md"
_PLACE = "/srv"

_MINUTE = timedelta(minutes=1)
_CONFIG = QueueConfig(
    dedup_key="path",
    fair_key="tenant",
    group_key="folder",
    weights={"cyd": 0.01},
    max_attempts=2,
    retry=RetryPolicy(backoff="fixed", delay=10 * _MINUTE),
)

#: What each of the two tables takes, on any disk.
_SIZES = {"commits": 160 * 2**10, "replaced": 20 * 2**10, "rows": 80 * 2**10}

#: How long upkeep took.
_TOOK = re.compile(r", \d+\.\d s$")

_BLOCK = re.compile(r"```shell-session\n(.*?)```", re.DOTALL)


def queue_at_night(place: Path) -> ManualClock:
    """Make the queue, and let its night pass; return its clock."""
    clock = ManualClock(datetime(2026, 3, 3, 0, 0, tzinfo=timezone.utc))
    columns, path = "path string, tenant string, folder string", place / "jobs"
    with _as("setup"):
        queue = LocalQueue.create(path, columns, _CONFIG, durability="process", clock=clock)
    queue.enqueue([_row("ann", n) for n in range(30)])
    queue.enqueue([_row("bob", n) for n in range(30)])
    queue.enqueue([_row("cyd", n) for n in range(3)])
    for _ in range(12):
        clock.advance(10 * _MINUTE)
        queue.claim(3, worker_id="worker-1").ack()
    with _as("deploy"):
        _deploy(queue, clock)
    for n in range(4):
        clock.advance(10 * _MINUTE)
        queue.claim(2, worker_id="worker-2").nack(f"ConnectionError: db-{n}.internal: timed out")
    queue.claim(2, worker_id="worker-2")
    clock.advance(17 * _MINUTE)
    with _as("dan"):
        queue.pause()
    clock.advance(3 * _MINUTE)
    return clock


def _deploy(queue: LocalQueue, clock: ManualClock) -> None:
    """Put another version of the workers there, as somebody did at two."""
    queue.pause()
    clock.advance(2 * _MINUTE)
    queue.configure(lease=5 * _MINUTE, max_in_flight=50)
    clock.advance(2 * _MINUTE)
    queue.resume()
    clock.advance(6 * _MINUTE)


def _row(tenant: str, number: int) -> dict[str, str]:
    folder = f"{tenant}/{number // 10}"
    return {"path": f"{folder}/{number}", "tenant": tenant, "folder": folder}


def _as(user: str) -> AbstractContextManager[object]:
    """Do what follows as somebody."""
    return patch.object(acting, "whoami", lambda: f"{user}@ops-1")


@contextmanager
def night(place: Path) -> Iterator[None]:
    """Work beside the queue, with its clock, and an 80-column terminal."""
    clock = queue_at_night(place)
    before = Path.cwd()
    os.chdir(place)
    try:
        with (
            patch.object(SystemClock, "now", lambda _self: clock.now()),
            patch.object(TableHere, "sizes", lambda _self: _SIZES),
            patch("shutil.disk_usage", lambda _path: SimpleNamespace(free=60 * 2**30)),
            _as("you"),
            patch.dict(os.environ, {"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}),
        ):
            yield
    finally:
        os.chdir(before)


def answered(page: str, place: Path) -> str:
    """Return a page with the output of its commands as they print it now, one after the other."""
    with night(place):
        return _BLOCK.sub(lambda block: _answered(block[1], place), page)


def _answered(block: str, place: Path) -> str:
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    said = "".join(f"$ {command}\n{_said(command, place)}" for command in commands)
    return f"```shell-session\n{said}```"


def _said(command: str, place: Path) -> str:
    """Run a command, and return what it prints; or the exit code of the one before."""
    if command == "echo $?":
        return f"{_last[0]}\n"
    words = shlex.split(command)
    if words[0] != "spark-queue":
        raise ValueError(f"the page runs {command!r}, which is no command of its")
    out, err = StringIO(), StringIO()
    with patch("sys.stdout", out), patch("sys.stderr", err):
        try:
            main(words[1:])
        except SystemExit as ended:
            _last[0] = int(ended.code or 0)
    lines = (out.getvalue() + err.getvalue()).replace(str(place), _PLACE).splitlines()
    return "".join(f"{_TOOK.sub(', 0.1 s', line.rstrip())}\n" for line in lines)


#: The exit code of the last command.
_last = [0]


def rewrite(place: Path) -> None:
    """Write into the page what its commands print now."""
    PAGE.write_text(answered(PAGE.read_text(encoding="utf-8"), place), encoding="utf-8")
