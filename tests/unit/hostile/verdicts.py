"""Verdict on what a call made of a hostile value."""

from __future__ import annotations

import asyncio
import inspect
import linecache
import queue
import signal
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import spark_queue
from spark_queue.errors import SparkQueueError

PACKAGE = str(Path(spark_queue.__file__).parent)

#: Seconds after which a call hangs.
PATIENCE = 20

#: The longest message that a person can read.
READABLE = 3_000

#: What calls are documented to end with, beside errors of the library.
_DOCUMENTED = (ValueError, TypeError, queue.Empty, queue.Full, TimeoutError, AssertionError)


class Hang(BaseException):
    """Raised in a call that does not come back."""


def outcome_of(call: Callable[[], Any]) -> BaseException | None:
    """Make a call, wait for what it promises, and return what it raised."""
    try:
        with _within(PATIENCE):
            _waited_for(call())
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # noqa: BLE001 - that is what is judged
        return exc
    return None


def fault(exc: BaseException | None, name: str) -> str | None:
    """Say what is wrong with an outcome; ``None`` where it is allowed.

    Parameters
    ----------
    exc : BaseException or None
        What the call raised.
    name : str
        The parameter that was given a hostile value.
    """
    if exc is None or _is_of_a_stand_in(exc):
        return None
    try:
        said = str(exc)
    except Exception as twice:  # noqa: BLE001 - an error that cannot be shown
        return f"{type(exc).__name__} that cannot be shown: {type(twice).__name__}"
    short = f"{type(exc).__name__}: {said[:150]!r} {_place(exc)}"
    if len(said) > READABLE:
        return f"{len(said):,} characters: {short}"
    if isinstance(exc, SparkQueueError):
        return None
    if not isinstance(exc, _DOCUMENTED) or not _is_raised_here(exc):
        return short
    return None if type(exc) not in (ValueError, TypeError) or name in said else short


def _place(exc: BaseException) -> str:
    frames = _frames(exc)
    return " < ".join(f"{Path(one.filename).name}:{one.lineno}" for one in frames[:-5:-1])


def _frames(exc: BaseException) -> traceback.StackSummary:
    return traceback.extract_tb(exc.__traceback__)


def _is_of_a_stand_in(exc: BaseException) -> bool:
    """Tell whether what stands in for a session was touched."""
    return isinstance(exc, AssertionError) and not _frames(exc)[-1].filename.startswith(PACKAGE)


def _is_raised_here(exc: BaseException) -> bool:
    """Tell whether a statement of the library, or a stand-in, has raised it."""
    last = _frames(exc)[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    is_ours = last.filename.startswith((PACKAGE, str(Path(__file__).parent.parent)))
    return is_ours and line.startswith("raise ")


def _waited_for(made: Any) -> None:
    if inspect.iscoroutine(made):
        asyncio.run(asyncio.wait_for(made, PATIENCE))
    elif isinstance(made, Future):
        made.result(PATIENCE)
    elif isinstance(made, tuple) and any(isinstance(one, Future) for one in made):
        for one in made:
            _waited_for(one)
    elif isinstance(made, Iterator):
        next(made, None)
    elif hasattr(made, "__aenter__"):
        return
    elif hasattr(made, "__enter__") and hasattr(made, "gen"):
        with made:
            pass


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    def end(_number: int, frame: FrameType | None) -> None:
        raise Hang("".join(traceback.format_stack(frame)[-4:]))

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
