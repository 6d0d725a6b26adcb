from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from spark_queue.errors import AbortedError
from spark_queue.memory.waiting.abort import AbortScope


def test_an_error_is_kept_as_the_reason() -> None:
    """AB-01: the reason is the very error that was given, and the first one stays."""
    scope, error = AbortScope(), ValueError("no")
    assert scope.abort(error)
    assert not scope.abort("again")
    assert scope.signal.reason is error
    with pytest.raises(ValueError, match="no"):
        scope.signal.raise_if_aborted()


def test_a_text_becomes_the_message() -> None:
    """AB-02: a text is the message of the error."""
    scope = AbortScope()
    scope.abort("enough")
    assert isinstance(scope.signal.reason, AbortedError)
    assert str(scope.signal.reason) == "enough"


def test_there_is_always_some_error() -> None:
    """AB-03: without a reason there is an error all the same; without an abort there is none."""
    scope = AbortScope()
    assert scope.signal.reason is None
    scope.signal.raise_if_aborted()
    scope.abort()
    assert isinstance(scope.signal.reason, AbortedError)


def test_a_child_follows_its_parent() -> None:
    """AB-07: the parent's reason is the child's; the child's own abort is not its parent's."""
    parent = AbortScope()
    child, sibling = AbortScope(parent.signal), AbortScope(parent.signal)
    child.abort("only me")
    assert not parent.signal.aborted
    parent.abort("all")
    assert str(child.signal.reason) == "only me"
    assert sibling.signal.reason is parent.signal.reason
    assert AbortScope(parent.signal).signal.reason is parent.signal.reason


def test_a_disposed_scope_does_not_follow() -> None:
    """AB-08: after its scope has ended a child hears nothing, and leaves no listener."""
    parent = AbortScope()
    with AbortScope(parent.signal) as child:
        assert parent.signal.listener_count == 1
    assert parent.signal.listener_count == 0
    parent.abort()
    assert not child.signal.aborted


def test_listeners_are_told_once_and_a_failing_one_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A listener hears the reason once, at once when it comes late, and not after it has left."""
    scope = AbortScope()
    heard: list[str] = []
    scope.signal.listen(lambda _: 1 / 0)
    scope.signal.listen(lambda reason: heard.append(f"first {reason}"))
    leave = scope.signal.listen(lambda _: heard.append("left"))
    leave()
    leave()
    with caplog.at_level(logging.ERROR):
        scope.abort("now")
    scope.abort("again")
    scope.signal.listen(lambda reason: heard.append(f"late {reason}"))
    assert heard == ["first now", "late now"]
    assert "a listener to an abort failed" in caplog.text


async def test_threads_and_coroutines_can_wait_for_an_abort() -> None:
    """Waiting ends with the abort, or at its time, and leaves no listener."""
    scope = AbortScope()
    assert not scope.signal.wait(timeout=0)
    waiting = asyncio.create_task(scope.signal.aio_wait())
    await asyncio.sleep(0)
    assert scope.signal.listener_count == 1
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert scope.signal.listener_count == 0
    waiting = asyncio.create_task(scope.signal.aio_wait())
    await asyncio.sleep(0)
    threading.Thread(target=scope.abort).start()
    await waiting
    assert scope.signal.wait()
    assert scope.signal.listener_count == 0
