"""Work that fails, for tests of what becomes of it."""

from __future__ import annotations

from typing import Any

from spark_queue.memory.distinct import DistinctQueue


class WorkError(Exception):
    """Raised by the work on a batch."""


class Failing:
    """A scope in which the work must fail, and whose error must come out."""

    def __init__(self, error: type[BaseException] = WorkError) -> None:
        self._error = error

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        assert kind is not None, "the work did not fail, or its error did not come out"
        return issubclass(kind, self._error)


def fail(queue: DistinctQueue[Any], count: int) -> list[Any]:
    """Take so many elements and fail with them; return what was taken."""
    with Failing(), queue.take(count, timeout=0) as items:
        raise WorkError
    return items
