"""Processing that stays: it waits for more, and ends in good order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_queue.clock import ManualClock
from spark_queue.errors import InvalidArgumentError
from spark_queue.local_queue import LocalQueue
from tests.unit.local.conftest import Make

PATIENCE = 60.0

#: A handler that says what it gets, and stays at the item that is to be last.
_HANDLER = """
import time

def handle(item):
    print(item["id"], flush=True)
    if item["id"] == "slow":
        time.sleep(1)
"""


def test_it_waits_for_more_and_ends_by_stop(make: Make) -> None:
    """What is put once the queue was empty is worked off, too."""
    queue, stop, done = make(), threading.Event(), threading.Semaphore(0)
    seen: list[str] = []

    def handle(item: dict[str, Any]) -> None:
        seen.append(item["id"])
        done.release()

    with ThreadPoolExecutor(1) as pool:
        worked = pool.submit(queue.process, handle, forever=True, stop=stop)
        for name in ("a", "b"):
            queue.enqueue({"id": name})
            assert done.acquire(timeout=PATIENCE)
        stop.set()
        result = worked.result(PATIENCE)

    assert (seen, result.acked, result.stopped) == (["a", "b"], 2, "stop")
    assert queue.stats().claimed == 0


def test_it_ends_by_its_time_limit(make: Make) -> None:
    """A queue that stays empty is left when the time is up."""
    limit = timedelta(milliseconds=10)

    assert make().process(lambda _: None, forever=True, time_limit=limit).stopped == "time limit"


def test_what_becomes_due_is_worked_off(make: Make, clock: ManualClock) -> None:
    """An item with a delay is waited for."""
    queue, stop = make(), threading.Event()
    queue.enqueue({"id": "a", "available_at": clock.now() + timedelta(seconds=1)})
    with ThreadPoolExecutor(1) as pool:
        worked = pool.submit(queue.process, lambda _: stop.set(), forever=True, stop=stop)
        clock.advance(timedelta(seconds=2))

        assert worked.result(PATIENCE).acked == 1


def test_forever_is_yes_or_no(make: Make) -> None:
    """Anything else is refused before a claim."""
    queue = make()
    queue.enqueue({"id": "a"})

    with pytest.raises(InvalidArgumentError, match="forever is 1"):
        queue.process(lambda _: None, forever=1)  # type: ignore[call-overload]
    assert queue.stats().ready == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("where", ["idle", "at work"])
def test_a_command_that_stays_ends_by_a_signal(
    queue_path: str, tmp_path: Path, number: signal.Signals, code: int, where: str
) -> None:
    """What was done is settled, what it holds is given back, and the exit code says why."""
    (tmp_path / "handlers.py").write_text(_HANDLER)
    queue = LocalQueue.create(queue_path, "id string", durability="process")
    queue.enqueue({"id": "first"})
    command = [sys.executable, "-m", "spark_queue.cli", "process", "--engine", "local"]
    command += [queue_path, "handlers:handle", "--forever"]
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    with subprocess.Popen(  # noqa: S603 - our own package
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    ) as ended:
        assert ended.stdout is not None
        assert ended.stdout.readline() == "first\n"
        if where == "at work":
            queue.enqueue([{"id": "slow"}, {"id": "last"}])
            assert ended.stdout.readline() == "slow\n"
        else:
            queue.enqueue({"id": "second"})
            assert ended.stdout.readline() == "second\n"
        ended.send_signal(number)
        _, said = ended.communicate(timeout=PATIENCE)

    assert ended.returncode == code, said
    stats = queue.stats()
    assert (stats.acked, stats.claimed) == (2, 0)
    assert stats.ready == (1 if where == "at work" else 0)
