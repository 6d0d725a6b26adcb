"""What is brought here of a frame that was evaluated."""

from __future__ import annotations

from typing import Any

import pytest

from spark_queue.spark.spark_enqueue import collect


class Frame:
    """A frame whose rows cannot be brought here."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.asked: list[int] = []

    def limit(self, rows: int) -> Frame:
        self.asked.append(rows)
        return self

    def toArrow(self) -> Any:  # noqa: N802 - as Spark has it
        raise RuntimeError(self.why)


def test_few_rows_that_are_large_stay_with_spark() -> None:
    """Rows beyond what the session lets a driver have are no error: Spark decides their step."""
    frame: Any = Frame("results (3 GiB) are bigger than spark.driver.maxResultSize (1 GiB)")
    assert collect(frame, 10) is None
    assert frame.asked == [11]


def test_rows_that_cannot_be_read_are_an_error() -> None:
    """Whatever else goes wrong is the caller's to know, and is not tried a second way."""
    frame: Any = Frame("the stage is gone")
    with pytest.raises(RuntimeError, match="the stage is gone"):
        collect(frame, 10)
