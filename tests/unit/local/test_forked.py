"""A queue, and what is over it, in a child of a fork: it works, or says what to do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_queue.local_queue import LocalQueue
from spark_queue.log import maintenance
from spark_queue.log.step_events import StepFacts
from tests.programs import run_python
from tests.unit.local.forked import in_child

_PROGRAM = Path(__file__).with_name("forked.py")

#: What needs no more than the process knew when it forked.
_WORKS = {
    *("counts", "status", "history", "dead", "explain", "stats", "readers", "report"),
    *("enqueue", "claim", "wait", "ack", "renew", "process", "apart"),
    *("front.close", "journal.close"),
}


def _told(*words: object) -> dict[str, Any]:
    ended = run_python(_PROGRAM, *words, check=True)
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told


def test_a_child_is_told_of_the_fork(tmp_path: Path) -> None:
    """Steps of a queue go on in the child; what cannot says that it was forked, and what to do."""
    told = _told(tmp_path)
    upkeep, parent = told.pop("upkeep"), told.pop("parent")
    assert {name for name, became in told.items() if became == "ok"} >= _WORKS
    for name, became in told.items():
        if became != "ok":
            assert became.startswith("SetupError: "), (name, became)
            assert "forked" in became
            assert "spawn" in became
    refused = {name for name, became in told.items() if became != "ok"}
    assert refused >= {"open", "create", "clone"}
    fronts = {name for name in told if name.startswith(("front.", "journal."))}
    assert fronts - refused == {"front.close", "journal.close"}
    assert parent == 1
    assert [line for line in upkeep if "not tidied up" in line and "forked" in line] == upkeep
    assert len(upkeep) == 1


def test_a_child_of_a_process_that_used_nothing_is_free(tmp_path: Path) -> None:
    """Forked before anything of a queue was used, a child opens and makes queues as any process."""
    assert _told(tmp_path, "unused") == {"unused": "ok"}


def test_a_child_does_not_wait_for_threads_of_its_parent(tmp_path: Path) -> None:
    """Forked in the middle of a step of another thread, a child waits for its end."""
    is_stuck, may_go = threading.Event(), threading.Event()

    def listen(_: StepFacts) -> None:
        if threading.current_thread().name == "stuck":
            is_stuck.set()
            may_go.wait(60)

    queue = LocalQueue.create(tmp_path / "queue", "n int", durability="process", listener=listen)
    queue.enqueue({"n": 0})
    thread = threading.Thread(target=queue.enqueue, args=({"n": 1},), name="stuck")
    thread.start()
    assert is_stuck.wait(60)
    threading.Timer(0.2, may_go.set).start()
    became = in_child(lambda: queue.enqueue({"n": 2}))
    thread.join(60)
    assert became == "ok" or ("SetupError" in became and "forked" in became)
    assert queue.enqueue({"n": 3}).inserted == 1


def test_a_child_does_not_wait_for_a_lock_that_nobody_has(tmp_path: Path) -> None:
    """A child forgets what a thread of its parent was changing, and reads the files again."""
    queue = LocalQueue.create(tmp_path / "queue", "n int", durability="process")
    queue.enqueue({"n": 0})
    cache = queue._main.cache()
    is_held, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        with cache.lock:
            is_held.set()
            may_go.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_held.wait(60)
    became = in_child(lambda: queue.enqueue({"n": 1}))
    may_go.set()
    thread.join(60)
    assert became == "ok"
    assert [row["n"] for row in queue.claim(9).rows] == [0, 1]
    assert queue.enqueue({"n": 2}).inserted == 1


def test_upkeep_outlives_whatever_ends_a_chore(caplog: pytest.LogCaptureFixture) -> None:
    """A panic of a library, which is no ordinary exception, is logged once; the next chore runs."""

    class PanicError(BaseException):
        """Stands for what the binding of Rust raises."""

    def panic() -> Any:
        raise PanicError("Forked process detected")

    done = threading.Event()
    for _ in range(2):
        maintenance.ask("panicking", panic)
        assert maintenance.wait(10)

    def go() -> Iterator[None]:
        done.set()
        yield

    maintenance.ask("going", go)
    assert maintenance.wait(10)
    assert done.is_set()
    assert caplog.text.count("panicking: not tidied up") == 1
