"""Kit for tests of programs: queue in memory, manual clock, assertions.

Nothing of it needs Spark, a disk, or a test framework; with pytest there are fixtures, too
(:mod:`spark_queue.testing.plugin`). The names load what they need when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_queue.clock import ManualClock
    from spark_queue.testing.assertions import (
        assert_cancelled,
        assert_claimed,
        assert_dead,
        assert_done,
        assert_empty,
        assert_enqueued,
        assert_expired,
        assert_order,
        assert_ready,
        assert_refused,
    )
    from spark_queue.testing.driving import drain, fail_next, lose_lease
    from spark_queue.testing.in_memory import memory_queue

_HOMES = {
    "ManualClock": "spark_queue.clock",
    "assert_cancelled": "spark_queue.testing.assertions",
    "assert_claimed": "spark_queue.testing.assertions",
    "assert_dead": "spark_queue.testing.assertions",
    "assert_done": "spark_queue.testing.assertions",
    "assert_empty": "spark_queue.testing.assertions",
    "assert_enqueued": "spark_queue.testing.assertions",
    "assert_expired": "spark_queue.testing.assertions",
    "assert_order": "spark_queue.testing.assertions",
    "assert_ready": "spark_queue.testing.assertions",
    "assert_refused": "spark_queue.testing.assertions",
    "drain": "spark_queue.testing.driving",
    "fail_next": "spark_queue.testing.driving",
    "lose_lease": "spark_queue.testing.driving",
    "memory_queue": "spark_queue.testing.in_memory",
}

__all__ = [
    "ManualClock",
    "assert_cancelled",
    "assert_claimed",
    "assert_dead",
    "assert_done",
    "assert_empty",
    "assert_enqueued",
    "assert_expired",
    "assert_order",
    "assert_ready",
    "assert_refused",
    "drain",
    "fail_next",
    "lose_lease",
    "memory_queue",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
