"""Base of all errors, and errors of logs, their files and their steps."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from spark_queue.wording import plural

#: The folders of the two logs of a queue.
_LOGS = ("queue", "status")

_WAYS_OUT = {
    errno.EMFILE: "raise the limit of open files (ulimit -n) or close some",
    errno.ENFILE: "close files, or raise the limit of the system (fs.file-max)",
    errno.ENOMEM: "give the process more memory",
    errno.EACCES: "let the user of this process read and write it",
    errno.EISDIR: "move that directory away",
    errno.ENOTDIR: "move the file away that is in the place of its directory",
    errno.EPERM: "let the user of this process read and write it",
}


class SparkQueueError(Exception):
    """Base of every error that the library raises."""

    def __reduce__(self) -> tuple[object, ...]:
        # By default a copy is made by a call with the message alone, which is no way to make most.
        return _rebuild, (type(self), self.args, vars(self))


class LogDamagedError(SparkQueueError):
    """Raised when a table of a queue was changed other than by its own steps.

    Attributes
    ----------
    log : str
        The log that is damaged, ``queue`` or ``status``.
    step : int
        The step that is gone, or that could not be made.
    """

    def __init__(self, queue: str, log: str, step: int, why: str = "") -> None:
        found = why or f"it does not take step {step}, and no other writer made it"
        super().__init__(
            f"the {log} log of queue {queue!r} is damaged: {found}. Was the table restored to an "
            "older version, or did it lose files? Restore its newest version, put back what is "
            "gone, or copy its rows into a new queue; nothing was written"
        )
        self.log = log
        self.step = step


class LogFileError(SparkQueueError):
    """Raised when a file is no write-ahead log, or a damaged one; nothing in it was changed.

    Attributes
    ----------
    path : Path
        The file.
    offset : int
        The byte from which on it cannot be read.
    """

    def __init__(self, path: Path, offset: int, why: str) -> None:
        super().__init__(f"{path} cannot be used as a write-ahead log, at byte {offset}: {why}")
        self.path = path
        self.offset = offset


class FileDamagedError(LogDamagedError, OSError):
    """Raised when a file of a table is gone or damaged.

    Attributes
    ----------
    file : str
        The path of the file.
    log : str
        The log that it belongs to, ``queue`` or ``status``; empty for any other table.
    """

    def __init__(self, file: str | os.PathLike[str], why: str) -> None:
        path = os.fspath(file)
        Exception.__init__(
            self,
            f"the file {path!r} {why}: put it back from a copy, or copy the rows that can be read "
            "into a new table; nothing was written",
        )
        self.file = path
        self.log = _log_of(path)
        self.step = 0

    def __str__(self) -> str:
        return str(self.args[0])


class FileGoneError(FileDamagedError, FileNotFoundError):
    """The damage of a file that is not there."""

    def __init__(self, file: str | os.PathLike[str]) -> None:
        super().__init__(file, "is gone, or damage to another file names it")


class FileAccessError(SparkQueueError, OSError):
    """Raised when the system refuses a file: no permission, no free descriptor, a failing disk.

    Attributes
    ----------
    file : str
        The path of the file.
    errno : int
        The number by which the system says why.
    """

    def __init__(self, file: str | os.PathLike[str], cause: int, way_out: str = "") -> None:
        path = os.fspath(file)
        way_out = way_out or _WAYS_OUT.get(cause, "see the log of the system")
        OSError.__init__(self, cause, os.strerror(cause), path)
        self.file = path
        self._said = f"{path!r} cannot be used: {os.strerror(cause)}; {way_out}, and try again"

    def __str__(self) -> str:
        return self._said


@contextmanager
def using(file: Path | str) -> Iterator[None]:
    """Name a file that the system refuses; that it is there, or not, is passed on.

    Parameters
    ----------
    file : Path or str
        The file, or the directory of those that are used, where the system names none.

    Raises
    ------
    FileAccessError
        When this process may not use it, or it is of another kind.
    """
    try:
        yield
    except (FileNotFoundError, FileExistsError, SparkQueueError):
        raise
    except OSError as exc:
        if exc.errno is None:
            raise
        raise FileAccessError(exc.filename or file, exc.errno) from exc


class FencedError(SparkQueueError):
    """Raised when another holder has taken a queue over; nothing was written.

    Attributes
    ----------
    holder : str
        Who holds it now.
    """

    def __init__(self, what: str, holder: str) -> None:
        super().__init__(
            f"{what} was taken over by {holder}; open it again to take it back, or use that one"
        )
        self.holder = holder


class StepLostError(SparkQueueError):
    """Raised when a step was lost to other writers more often than is worth trying.

    Attributes
    ----------
    tries : int
        How often the step was tried.
    """

    def __init__(self, what: str, tries: int) -> None:
        super().__init__(f"{what} lost its step to other writers {tries} times; try again later")
        self.tries = tries


class BatchForgottenError(SparkQueueError):
    """Raised when a repeated batch is too old for its result to be known.

    The source was silent for longer than ``forget_sources_after``. Nothing was written.

    Attributes
    ----------
    source : str
        The source.
    number : int
        The batch that was to be enqueued.
    last : int
        The last batch of the source that was enqueued.
    """

    def __init__(self, queue: str, source: str, number: int, last: int, at: datetime) -> None:
        super().__init__(
            f"batch {number} of source {source!r} is not new to queue {queue!r}: batch {last} was "
            f"enqueued, the last one, at {at.isoformat()}, and the source was silent for longer "
            "than forget_sources_after. What each batch did is forgotten: if this one repeats "
            f"one, skip it; else go on with batch {last + 1}, or name another source"
        )
        self.source = source
        self.number = number
        self.last = last


class BatchMismatchError(SparkQueueError):
    """Raised when a batch comes again with another number of rows than the first time.

    Nothing was written. It is raised where that was asked for (``on_mismatch="raise"``).

    Attributes
    ----------
    source : str
        The source.
    number : int
        The batch.
    was, rows : int
        How many rows it had the first time, and has now.
    """

    def __init__(self, queue: str, source: str, number: int, was: int, rows: int) -> None:
        super().__init__(
            f"batch {number} of source {source!r} is in queue {queue!r} already, with "
            f"{plural(was, 'row')}, and comes with {rows} now: nothing was written; if they are "
            "new, give it a number above the last one, or name another source"
        )
        self.source = source
        self.number = number
        self.was = was
        self.rows = rows


class OldCheckpointError(SparkQueueError):
    """Raised when a stream's checkpoint is older than its work in the queue.

    A copy was put back: the batches between the two are in the queue, by their numbers, and what
    the stream would bring under these numbers may be other rows. Nothing was written.

    Attributes
    ----------
    source : str
        The query.
    number : int
        The batch, or the step, that it comes with.
    last : int
        The last one that the queue knows of it.
    """

    def __init__(self, queue: str, source: str, number: int, last: int, what: str) -> None:
        super().__init__(
            f"{what} {number} of {source!r} comes to queue {queue!r} after {what} {last}: its "
            "checkpoint is older than what it has done. Put back the newest checkpoint; or begin "
            "with an empty one, and with a dedup key where rows are not to enter twice"
        )
        self.source = source
        self.number = number
        self.last = last


class OutcomesGoneError(SparkQueueError, LookupError):
    """Raised when the rows that an enqueue refused were dropped, with ``maintain(retention=...)``.

    Attributes
    ----------
    queue : str
        The queue.
    step : int
        The step of the enqueue.
    """

    def __init__(self, queue: str, step: int) -> None:
        super().__init__(
            f"what step {step} of queue {queue!r} refused was dropped, with "
            "maintain(retention=...): the counts of the result are all that is known of it"
        )
        self.queue = queue
        self.step = step


class SettingsChangedError(SparkQueueError):
    """Raised when a setting has not the value that its change expects; nothing was written.

    Attributes
    ----------
    queue : str
        The queue.
    setting : str
        The setting.
    """

    def __init__(self, queue: str, setting: str, expected: object, found: object) -> None:
        super().__init__(
            f"{setting} of queue {queue!r} was {expected} when this change was decided, and is "
            f"{found} now: it was changed since; look at it again"
        )
        self.queue = queue
        self.setting = setting


def _rebuild(
    kind: type[SparkQueueError], args: Sequence[object], facts: Mapping[str, Any]
) -> object:
    """Return an error as another process has pickled it."""
    error = kind.__new__(kind)
    if isinstance(error, OSError):
        OSError.__init__(error, *args)
    error.args = tuple(args)
    vars(error).update(facts)
    return error


def _log_of(path: str) -> str:
    """Return the log of a queue whose folders have the file."""
    table = os.path.basename(os.path.dirname(os.path.dirname(path)))  # noqa: PTH119, PTH120
    return "status" if table.startswith("reader_") else table if table in _LOGS else ""


class FormatVersionError(SparkQueueError):
    """Raised when a queue has a format that this release does not know, or cannot write.

    Attributes
    ----------
    found, supported : int
        The stored format version, and the newest one that this release reads.
    """

    def __init__(self, name: str, found: int, supported: int, other: str = "") -> None:
        newer = f"this release reads up to {supported}; upgrade spark-queue"
        older = (
            f"in which the text of {other} could be another in another session; this release "
            "writes it in another way, and would not find its duplicates: claim what is in the "
            "queue until it is empty, which goes on as before, and enqueue into a new one"
        )
        super().__init__(f"queue {name!r} has format version {found}, {older if other else newer}")
        self.found = found
        self.supported = supported


class WriterLockedError(SparkQueueError):
    """Raised when another writer holds a queue on this machine's disk.

    Attributes
    ----------
    pid : int or None
        The process that has it, where that is known.
    waited : float or None
        How many seconds it was waited for; ``None`` where a front holds the queue until it closes.
    """

    def __init__(self, name: str, pid: int | None, waited: float | None = None) -> None:
        who = "another process" if pid is None else f"process {pid}"
        if pid == os.getpid():
            who = "another thread of this process"
        kept = f"queue {name!r} is held by a journaled queue of {who}: close that first"
        late = (
            f"queue {name!r} is written to by one at a time, and {who} did so when {waited or 0:g} "
            "s had passed: try again, or see what holds it up"
        )
        super().__init__(f"{kept if waited is None else late} (reading always works)")
        self.pid = pid
        self.waited = waited


class DuplicateItemError(SparkQueueError):
    """Raised by ``enqueue(on_duplicate="raise")`` when a row repeats a key; nothing was written.

    Attributes
    ----------
    count : int
        How many rows of the frame are duplicates.
    """

    def __init__(self, count: int, example: str) -> None:
        super().__init__(f"{plural(count, 'row has', 'rows have')} a taken key, such as {example}")
        self.count = count


class UnsafeSessionError(SparkQueueError):
    """Raised when a setting of the Spark session would lose or repeat work.

    Attributes
    ----------
    setting : str
        The setting in the way.
    """

    def __init__(self, setting: str, why: str) -> None:
        super().__init__(f"{setting} is not right in this session: {why}")
        self.setting = setting
