"""One step: decided on the newest head, committed, told; decided anew where it was lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from spark_queue.errors import StepLostError
from spark_queue.log.heads import QueueHead, following
from spark_queue.log.step_events import StepFacts
from spark_queue.state import steps
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.steps import Answer, Step


class Log:
    """A store whose next steps are taken by others, so many times."""

    name, handle = "q", None
    queue = status = SimpleNamespace(is_remote=False)

    def __init__(self, lost: int = 0) -> None:
        self.lost = lost
        self.head = QueueHead()
        self.told: list[StepFacts] = []
        self.listener = self.told.append
        self.is_locked = False

    @contextmanager
    def writing(self, which: str) -> Iterator[None]:
        assert which == "queue"
        self.is_locked = True
        try:
            yield
        finally:
            self.is_locked = False

    def cache(self) -> None:
        assert self.is_locked

    def queue_head(self, cache: object) -> QueueHead:
        assert (self.is_locked, cache) == (True, None)
        return self.head

    def commit(self, head: QueueHead, rows: object, *, small: bool) -> float | None:
        assert self.is_locked
        assert (rows, small) == (None, True)
        is_ours, self.lost = self.lost == 0, max(0, self.lost - 1)
        self.head = head if is_ours else following(self.head)
        return 0.25 if is_ours else None


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Count the pauses, and make none; commit to the log above."""
    made: list[float] = []
    monkeypatch.setattr(time, "sleep", made.append)
    monkeypatch.setattr(steps, "commit_items", lambda at, *a, **k: at.store.commit(*a, **k))
    return made


def _next(at: Snapshot) -> Step[QueueHead, int]:
    head = following(at.queue)
    return Step(head=head, counts={"items": 1}, answer=head.step)


# rule: lost step
def test_a_lost_step_is_decided_anew_on_the_winner(pauses: list[float]) -> None:
    """Whoever loses a step waits a drawn time outside of the lock, and decides on what won."""
    log: Any = Log(lost=2)
    assert steps.on_items(log, "put", _next) == 3
    assert [(told.step, told.tries, told.counts) for told in log.told] == [(3, 3, {"items": 1})]
    assert [(told.engine, told.times.commit) for told in log.told] == [("python", 0.25)]
    assert len(pauses) == 2
    assert all(0 <= pause <= 0.5 for pause in pauses)


def test_a_step_that_saw_a_torn_list_of_commits_is_decided_anew(pauses: list[float]) -> None:
    """What Spark has missed that others have just made it sees with the next try.

    Any other error is the caller's.
    """
    log: Any = Log()
    errors = [RuntimeError("[DELTA_VERSIONS_NOT_CONTIGUOUS] Versions (1, 3) are not contiguous.")]

    def decide(at: Snapshot) -> Step[QueueHead, int]:
        if errors:
            raise errors.pop()
        return _next(at)

    assert steps.on_items(log, "put", decide) == 1
    assert len(pauses) == 1
    errors.append(RuntimeError("out of memory"))
    with pytest.raises(RuntimeError, match="out of memory"):
        steps.on_items(log, "put", decide)


def test_an_answer_needs_no_step() -> None:
    """What is decided to be nothing writes nothing, and nobody is told."""
    log: Any = Log()
    assert steps.on_items(log, "put", lambda _: Answer(answer="as it is")) == "as it is"
    assert (log.head.step, log.told) == (0, [])


def test_a_step_without_counts_is_told_to_nobody() -> None:
    """What the library does for itself is a step, and no news."""
    log: Any = Log()
    steps.on_items(log, "free", lambda at: Step(head=following(at.queue), answer=None))
    assert (log.head.step, log.told) == (1, [])


def test_a_step_that_is_always_lost_ends_with_an_error(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After twenty lost steps and half a minute the caller is told, and nothing was written."""
    monkeypatch.setattr(time, "monotonic", lambda: sum(pauses))
    log: Any = Log(lost=1_000)
    with pytest.raises(StepLostError, match="put") as told:
        steps.on_items(log, "put", _next)
    assert told.value.tries == len(pauses) + 1 >= steps.MAX_TRIES
    assert sum(pauses[:-1]) < 30 <= sum(pauses)
    assert log.told == []


def test_a_step_that_is_lost_fast_is_tried_for_half_a_minute() -> None:
    """Where others commit all the time, more than twenty of them may win before."""
    log: Any = Log(lost=10 * steps.MAX_TRIES)
    assert steps.on_items(log, "put", _next) == log.head.step


def test_a_step_that_is_tried_once_answers_with_nothing_when_lost(pauses: list[float]) -> None:
    """What can wait for the next time is not tried again."""
    log: Any = Log(lost=1)
    assert steps.once_on_items(log, "renew", _next) is None
    assert steps.once_on_items(log, "renew", _next) == 2
    assert pauses == []
