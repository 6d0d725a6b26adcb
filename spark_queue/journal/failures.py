"""Errors that end a journaled queue; each call gets one of its own."""

from __future__ import annotations

from collections.abc import Callable

from spark_queue.errors import FencedError, JournalFailedError, QueueShutDownError


def shut_down(name: str) -> Callable[[], Exception]:
    """Return what makes the error of a queue that was closed."""
    return lambda: QueueShutDownError(f"queue {name!r} is closed")


def ended_by(name: str, error: BaseException | None) -> Callable[[], Exception]:
    """Return what makes the error of a queue whose journal was lost, or could not be written."""
    if error is None or isinstance(error, FencedError):
        holder = "somebody else" if error is None else error.holder
        return lambda: FencedError(f"queue {name!r}", holder)
    return lambda: _failure(name, error)


def _failure(name: str, cause: BaseException) -> Exception:
    error = JournalFailedError(
        f"queue {name!r} is closed, since its journal could not be written ({cause!r}): "
        "open it again, which recovers what is durable"
    )
    error.__cause__ = cause
    return error
