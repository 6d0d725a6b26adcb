"""Fixtures for pytest, which finds them by itself where the library is installed.

Each run of pytest imports this module, so it imports no more than pytest has: what a fixture needs
is loaded by the tests that ask for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from spark_queue.clock import ManualClock
    from spark_queue.config import QueueConfig
    from spark_queue.local_queue import LocalQueue


@pytest.fixture
def spark_queue_clock() -> ManualClock:
    """Return a clock that stands at 2026-01-01 00:00 UTC until the test moves it."""
    from spark_queue.clock import ManualClock  # noqa: PLC0415 - see above

    return ManualClock()


@pytest.fixture
def spark_queue_memory(spark_queue_clock: ManualClock) -> Callable[..., LocalQueue]:
    """Return what makes queues in memory: ``spark_queue_memory("path string", QueueConfig(…))``.

    They go by the clock of the test, :func:`spark_queue_clock`.
    """
    from spark_queue.testing.in_memory import memory_queue  # noqa: PLC0415 - see above

    def make(
        schema: str, config: QueueConfig | None = None, *, name: str | None = None
    ) -> LocalQueue:
        return memory_queue(schema, config, name=name, clock=spark_queue_clock)

    return make
