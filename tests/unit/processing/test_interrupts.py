from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from spark_queue.processing import interrupts
from spark_queue.processing.interrupts import cancelled_first, interruptible


class FakeContext:
    """Stands for the Spark context: notes the tags of jobs, and what was cancelled."""

    def __init__(self) -> None:
        self.tags: set[str] = set()
        self.cancelled: list[str] = []
        self.was_cancelled = threading.Event()

    def addJobTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        self.tags.add(tag)

    def removeJobTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        self.tags.discard(tag)

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        self.cancelled.append(tag)
        self.was_cancelled.set()


class FakeSession:
    """Stands for a classic session."""

    def __init__(self) -> None:
        self.sparkContext = FakeContext()


def test_it_returns_what_the_work_returns_and_raises_what_it_raises() -> None:
    """Undisturbed work is as if it had been called, and nothing is cancelled."""
    spark: Any = FakeSession()

    assert interruptible(spark, lambda stop: stop.is_set()) is False
    with pytest.raises(ZeroDivisionError):
        interruptible(spark, lambda _: 1 / 0)
    assert spark.sparkContext.cancelled == []


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    """Let SIGINT be heard: a shell's background jobs are started with deaf ears."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)]
)
def test_a_signal_sets_the_event_cancels_and_waits(
    number: signal.Signals, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal stops the work, which gets the time to put things in order before it is raised."""
    monkeypatch.setattr(interrupts, "_AGAIN", 0.01)
    spark: Any = FakeSession()
    context: FakeContext = spark.sparkContext
    put_in_order = []

    def work(stop: threading.Event) -> None:
        with cancelled_first(spark):
            marked = set(context.tags)
            os.kill(os.getpid(), number)
            assert stop.wait(30)
        until = threading.Event()
        until.wait(0.2)  # long enough for a caller who does not wait to be seen
        while not marked <= set(context.cancelled):
            until.wait(0.01)
        put_in_order.append(marked)

    with pytest.raises(error) as raised:
        interruptible(spark, work)

    assert len(put_in_order) == 1
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if number is signal.SIGTERM:
        assert raised.value.code == 143  # type: ignore[attr-defined]


def test_jobs_outside_interruptible_work_carry_no_tag() -> None:
    """Where nobody can interrupt, nothing is marked."""
    spark: Any = FakeSession()

    with cancelled_first(spark):
        assert spark.sparkContext.tags == set()


def test_the_handler_of_the_program_is_left_alone() -> None:
    """A program that says itself what SIGTERM does keeps its handler."""
    spark: Any = FakeSession()

    def own(_signal: int, _frame: object) -> None: ...

    before = signal.signal(signal.SIGTERM, own)
    try:
        assert interruptible(spark, lambda _: signal.getsignal(signal.SIGTERM)) is own
    finally:
        signal.signal(signal.SIGTERM, before)
