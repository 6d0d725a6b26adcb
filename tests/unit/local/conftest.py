"""Queues without Spark, in the process of the test, on a clock that is moved by hand."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.local_queue import LocalQueue

#: Makes a queue: ``make("id string", dedup_key="id")``.
Make = Callable[..., LocalQueue]


@pytest.fixture
def make(queue_path: str, clock: ManualClock) -> Make:
    """Make a queue of some columns, with any settings."""

    def build(schema: str = "id string", **settings: Any) -> LocalQueue:
        config = QueueConfig(**settings)
        return LocalQueue.create(queue_path, schema, config, durability="process", clock=clock)

    return build


@pytest.fixture
def again(queue_path: str, clock: ManualClock) -> Callable[[], LocalQueue]:
    """Open another handle of the queue."""
    return lambda: LocalQueue.open(queue_path, durability="process", clock=clock)


#: Does with a queue what each line that it reads says, and answers each with a line.
_WORKER = """
import sys, spark_queue
queue = spark_queue.open(sys.argv[1], durability=sys.argv[2])
for line in sys.stdin:
    print(eval(line, {"queue": queue}), flush=True)
"""


class Worker:
    """Another process with the queue."""

    def __init__(self, path: str, durability: str = "process") -> None:
        program = [sys.executable, "-c", _WORKER, path, durability]
        self.process = subprocess.Popen(  # noqa: S603 - our own package
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def says(self, expression: str) -> str:
        """Return what an expression is there, as a text."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        """Let it end in the middle of whatever it does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def start(queue_path: str) -> Iterator[Callable[..., Worker]]:
    """Start another process with the queue; it ends with the test."""
    started: list[Worker] = []

    def run(durability: str = "process") -> Worker:
        started.append(Worker(queue_path, durability))
        return started[-1]

    yield run
    for worker in started:
        with suppress(ProcessLookupError):
            worker.kill()
