"""Rows that several threads enqueue on an object store at once, and what each thread is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from spark_queue.config import QueueConfig
from spark_queue.errors import (
    DuplicateItemError,
    FileAccessError,
    ReaderFullError,
    SchemaMismatchError,
)
from spark_queue.local_queue import LocalQueue
from spark_queue.log.step_events import StepFacts
from spark_queue.reader_config import ReaderConfig
from tests.logs.stores import ShakyStore
from tests.unit.threads import in_thread, until

_COMMIT = "PUT files/queue/_delta_log"
_FILE = "PUT files/queue/step-"


class Shared:
    """A distinct queue, of which one step lasts until several threads wait."""

    def __init__(self, config: QueueConfig | None = None) -> None:
        self.store = ShakyStore()
        self.steps: list[StepFacts] = []
        keyed = QueueConfig(dedup_key="path") if config is None else config
        self.queue = LocalQueue.create(
            "s3://bucket/files", "path string", keyed, storage=self.store, listener=self.hear
        )
        self.queue.enqueue([{"path": "old"}])
        self.steps.clear()

    def hear(self, step: StepFacts) -> None:
        """Note a step."""
        self.steps.append(step)

    def enqueue_at_once(
        self, *calls: list[str], meanwhile: Callable[[], object] = lambda: None, **options: Any
    ) -> list[Any]:
        """Enqueue paths while a step is under way, each call in its thread; return the answers."""
        is_written = threading.Event()

        def wait(ask: Callable[[], Any]) -> Any:
            assert is_written.wait(30)
            return ask()

        self.store.names.clear()
        self.store.fail_next(_FILE, wait)
        first, told = in_thread(lambda: self.queue.enqueue([{"path": "first"}], **options))
        until(lambda: any(name.startswith(_FILE) for name in self.store.names))
        begun = [in_thread(partial(self._enqueue, paths, options)) for paths in calls]
        fitting = sum("" not in paths for paths in calls)
        until(lambda: len(self.queue._main.handle.line._places) == 1 + fitting)
        meanwhile()
        is_written.set()
        for thread in (first, *(thread for thread, _ in begun)):
            thread.join(60)
            assert not thread.is_alive()
        assert not isinstance(told[0], BaseException)
        return [answer for _, (answer,) in begun]

    def _enqueue(self, paths: list[str], options: dict[str, Any]) -> Any:
        return self.queue.enqueue(
            [{"path": path} if path else {"x": 1} for path in paths], **options
        )

    def paths(self) -> list[str]:
        """Return the paths of all items."""
        return sorted(row["path"] for row in self.queue.status().to_pylist())


@pytest.fixture
def shared() -> Shared:
    """Return a queue with one item."""
    return Shared()


def test_threads_that_wait_share_a_step(shared: Shared) -> None:
    """Each is told what became of its own rows, and one that does not fit gets its own error."""
    a, misfit, b, cd = shared.enqueue_at_once(["a", "old"], [""], ["b"], ["c", "d"])
    assert isinstance(misfit, SchemaMismatchError)
    assert [step.counts["inserted"] for step in shared.steps] == [1, 4]
    assert {done.step for done in (a, b, cd)} == {shared.steps[-1].step}
    assert [(done.inserted, done.duplicates) for done in (a, b, cd)] == [(1, 1), (1, 0), (2, 0)]
    told = {row["path"]: row["outcome"] for row in a.outcomes.to_pylist()}
    assert told == {"a": "inserted", "old": "duplicate"}
    assert [row["path"] for row in cd.outcomes.to_pylist()] == ["c", "d"]
    assert shared.paths() == ["a", "b", "c", "d", "first", "old"]


def test_of_one_key_one_thread_has_the_item(shared: Shared) -> None:
    """The others are told that theirs are duplicates of it."""
    done = shared.enqueue_at_once(["a"], ["a"], ["a"])
    assert sorted(one.inserted for one in done) == [0, 0, 1]
    assert shared.paths() == ["a", "first", "old"]


@pytest.mark.parametrize(
    ("refused", "error"), [(["a", "b"], ReaderFullError), (["old"], DuplicateItemError)]
)
def test_the_error_of_one_is_told_to_it_alone(
    refused: list[str], error: type[Exception], shared: Shared
) -> None:
    """All that share its step enqueue by themselves then."""
    shared.queue.reader("small", config=ReaderConfig(max_items=3))
    found = shared.enqueue_at_once(refused, ["c"], on_duplicate="raise")
    assert (type(found[0]), found[1].inserted) == (error, 1)
    assert shared.paths() == ["c", "first", "old"]


@pytest.mark.parametrize("error", [TimeoutError, KeyboardInterrupt])
def test_a_step_without_an_answer_is_unclear_to_all(
    error: type[BaseException], shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there, or is not, for all of them; nobody's rows are there twice."""

    def lose(ask: Callable[[], Any]) -> None:
        ask()
        raise error("no answer")

    def lose_the_second(ask: Callable[[], Any]) -> Any:
        shared.store.fail_next(_COMMIT, lose)
        return ask()

    monkeypatch.setattr("spark_queue.log.object.remote_storage._PATIENCE", 0.0)
    told = shared.enqueue_at_once(
        ["a"], ["b"], meanwhile=lambda: shared.store.fail_next(_COMMIT, lose_the_second)
    )
    assert {type(one) for one in told} <= {FileAccessError, error}
    assert shared.paths() == ["a", "b", "first", "old"]
    assert shared.queue.enqueue([{"path": "c"}]).inserted == 1


def test_a_listener_may_wait_for_the_enqueue_of_another_thread(shared: Shared) -> None:
    """The step that it hears of keeps no other back."""

    def enqueue(step: StepFacts) -> None:
        if step.counts.get("inserted") == 2:
            in_thread(lambda: queue.enqueue([{"path": "c"}]))[0].join(30)

    queue = LocalQueue.open("s3://bucket/files", storage=shared.store, listener=enqueue)
    assert queue.enqueue([{"path": "a"}, {"path": "b"}]).inserted == 2
    assert shared.paths() == ["a", "b", "c", "old"]
