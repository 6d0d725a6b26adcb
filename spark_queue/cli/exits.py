"""Exit codes of commands, and the errors that lead to them."""

from __future__ import annotations

from enum import IntEnum

from spark_queue.errors import (
    FormatVersionError,
    InvalidArgumentError,
    InvalidConfigError,
    QueueExistsError,
    QueueNotFoundError,
    ReaderNotFoundError,
    SchemaMismatchError,
    SetupError,
    SparkNeededError,
    SparkQueueError,
    UnsafeSessionError,
    WriterLockedError,
)
from spark_queue.wording import line_of


class Exit(IntEnum):
    """Exit codes."""

    OK = 0
    """Done. Items that went to the dead letters are a result, not a failure."""
    FAILED = 1
    """The operation failed; nothing of it was done, or it can be started again."""
    USAGE = 2
    """A wrong argument, data that do not fit, no such queue, or a machine that is not set up."""
    LOCKED = 3
    """Another process keeps the right to write to the queue, or a front of it holds the queue."""
    WARNED = 4
    """The doctor found something to look at, or could not make a check."""
    UNSOUND = 5
    """The doctor found what keeps a queue from working, or from giving right answers."""
    INTERRUPTED = 130
    """SIGINT; what was claimed is released."""
    TERMINATED = 143
    """SIGTERM; what was claimed is released."""


class Terminated(BaseException):
    """Raised in the main thread by SIGTERM."""


_USAGE = (
    FormatVersionError,
    InvalidArgumentError,
    InvalidConfigError,
    QueueExistsError,
    QueueNotFoundError,
    ReaderNotFoundError,
    SchemaMismatchError,
    SetupError,
    SparkNeededError,
    UnsafeSessionError,
)


def exit_of(exc: BaseException) -> Exit:
    """Return the exit code for an error."""
    if isinstance(exc, KeyboardInterrupt):
        return Exit.INTERRUPTED
    if isinstance(exc, Terminated):
        return Exit.TERMINATED
    if isinstance(exc, WriterLockedError):
        return Exit.LOCKED
    return Exit.USAGE if isinstance(exc, _USAGE) else Exit.FAILED


def message_of(exc: BaseException) -> str:
    """Return one line that says what went wrong."""
    if isinstance(exc, KeyboardInterrupt):
        return "interrupted"
    if isinstance(exc, Terminated):
        return "terminated"
    said = line_of(exc)
    if isinstance(exc, QueueNotFoundError):
        said = said.replace("make it with create()", "make it with spark-queue create")
    if isinstance(exc, SparkQueueError):
        return said
    return f"{type(exc).__name__}: {said}" if said else type(exc).__name__
