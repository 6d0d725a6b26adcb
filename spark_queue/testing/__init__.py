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
    "ManualClock": "clock",
    "drain": "testing.driving",
    "fail_next": "testing.driving",
    "lose_lease": "testing.driving",
    "memory_queue": "testing.in_memory",
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
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "testing.assertions")
    return getattr(import_module(f"spark_queue.{home}"), name)
