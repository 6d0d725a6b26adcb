from __future__ import annotations

import logging
import math
import threading
import time
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from spark_queue.processing.claim_parts import WorkerDied
from spark_queue.processing.staged_outcomes import Learnt

CRASH = RuntimeError("Job aborted: Python worker exited unexpectedly (crashed)")


class FakeStage:
    """A stage that has the rows it was given, whatever it is asked."""

    def __init__(self, *rows: tuple[int, int]) -> None:
        self._rows = list(rows)
        self.asked: list[str] = []

    def where(self, condition: str) -> FakeStage:
        """Note what was asked."""
        self.asked.append(condition)
        return self

    def select(self, *_: str) -> FakeStage:
        """Have the columns that there are."""
        return self

    def collect(self) -> list[tuple[int, int]]:
        """Return the rows."""
        return self._rows


@pytest.fixture
def learnt() -> Learnt:
    """Return what a worker knows that is told not to wait."""
    stop = threading.Event()
    stop.set()
    return Learnt(stop)


def test_after_a_death_items_run_apart(learnt: Learnt) -> None:
    """Once a worker has died, and wherever an item was lost before, handlers run in children."""
    assert learnt.apart(losses=0) is None
    assert learnt.apart(losses=1) == {}
    learnt.look_at(ValueError("something else"), None)
    assert learnt.apart(losses=0) is None
    with pytest.raises(WorkerDied):
        learnt.look_at(CRASH, None)
    assert learnt.apart(losses=0) == {}


def test_a_worker_that_dies_all_the_same_is_an_error(learnt: Learnt) -> None:
    """Where handlers ran in children already, more of the same would not end."""
    learnt.look_at(CRASH, {})
    assert learnt.apart(losses=0) is None


def test_nobody_works_on_the_items_when_they_are_given_back() -> None:
    """The other workers of the task that failed have the time in which Spark ends them."""
    waited: list[float] = []
    learnt = Learnt(SimpleNamespace(wait=waited.append))  # type: ignore[arg-type]
    with pytest.raises(WorkerDied):
        learnt.look_at(CRASH, None)
    assert waited == [5.0]


def test_a_call_that_killed_is_halved(learnt: Learnt) -> None:
    """Items of a call of several are given to calls of half as many the next time."""
    stage: Any = FakeStage((4, 9), (7, 9), (8, 3))
    learnt.note_divided(stage)
    assert learnt.apart(losses=1) == {4: 4, 7: 4, 8: 1}
    stage = FakeStage((4, 4))
    learnt.note_divided(stage)
    assert learnt.apart(losses=1) == {4: 2, 7: 4, 8: 1}
    assert stage.asked == ["together > 1"]


def test_a_claim_of_which_nothing_began_in_time_is_worked_off_whole(
    learnt: Learnt, caplog: pytest.LogCaptureFixture
) -> None:
    """Clocks of executors that are far ahead cost a warning, and send items around but once."""
    now = datetime.now(timezone.utc)
    claim: Any = SimpleNamespace(claimed_at=now, lease_expires_at=now + timedelta(seconds=30))
    assert time.time() + 9 < learnt.until(claim) <= time.time() + 10
    with caplog.at_level(logging.WARNING):
        learnt.note_none(claim)
    assert "the clocks of executors are ahead" in caplog.text
    assert learnt.until(claim) == math.inf


def test_tasks_that_ran_again_are_told_of(learnt: Learnt, caplog: pytest.LogCaptureFixture) -> None:
    """Where a cluster ran tasks again, it is said what becomes of their items."""
    with caplog.at_level(logging.WARNING):
        learnt.note_missed(12)
    assert "12 items were in tasks that Spark ran again" in caplog.text
    assert learnt.apart(losses=0) == {}
