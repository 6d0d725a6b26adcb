"""Python's own tests of ``queue.Queue``, over a fair queue with one key."""

from __future__ import annotations

import queue
import threading
import unittest
from typing import Any

import pytest

from spark_queue.memory.fair import FairQueue

# Not every distribution of Python brings its tests.
contract = pytest.importorskip("test.test_queue")


class Queue(FairQueue[Any]):
    """A fair queue that is made as a ``queue.Queue`` is."""

    def __init__(self, maxsize: int = 0) -> None:
        super().__init__(lambda _: "one key")
        self.maxsize = maxsize


def _set_up(test: Any) -> None:
    test.cum = 0
    test.cumlock = threading.Lock()


TestQueueContract = type(
    "TestQueueContract",
    (contract.BaseQueueTestMixin, unittest.TestCase),
    {"queue": queue, "type2test": Queue, "setUp": _set_up},
)
