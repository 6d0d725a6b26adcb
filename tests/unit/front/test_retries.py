"""Retries of a front, on a clock that is moved by hand."""

from __future__ import annotations

import pytest

from spark_queue.front.leases import Retries


class _Steps:
    """A step that fails as the test says, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.error: BaseException | None = OSError(28, "No space left on device")
        self.retries = Retries("q", "claims", lambda: self.now)

    def take(self) -> None:
        if self.error is not None:
            raise self.error

    def pause(self, most: float = 10.0) -> float:
        """Take the step, and return how long it is not due."""
        self.retries.attempt(self.take, most)
        since = self.now
        while not self.retries.is_due():
            self.now += 1 / 16
        return self.now - since


def test_pauses_grow_up_to_a_limit() -> None:
    """Each failure doubles the pause; a success ends it."""
    steps = _Steps()
    assert [steps.pause() for _ in range(8)] == [0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8]
    assert [steps.pause(), steps.pause()] == [10, 10]
    assert steps.pause(most=1.0) == 1.0
    steps.error = None
    assert steps.pause() == 0
    steps.error = OSError()
    assert steps.pause() == 0.0625


def test_a_row_of_failures_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Another kind of failure is said, too, and the end of the row."""
    steps = _Steps()
    for number in range(5):
        steps.error = OSError(28, "No space left", f"file {number}")
        steps.pause()
    steps.error = ValueError("another")
    steps.pause()
    assert [record.getMessage().rsplit(": ", 1)[-1] for record in caplog.records] == [
        "'file 0'", "another",
    ]  # fmt: skip
    steps.error = None
    steps.pause()
    assert "claims again, after 6 failure(s)" in caplog.text
    assert steps.retries.is_due()
