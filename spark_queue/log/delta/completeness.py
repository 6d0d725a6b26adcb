"""Completeness of a log: against memory, its files, the other log.

A log from which commits were taken, or that was set back, looks like a shorter one, and a step on
top of that would give numbers a second time. So every record that names more is read before
something is written.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from spark_queue.errors import LogDamagedError
from spark_queue.log.delta.integrity import Trace, cut_at, trace
from spark_queue.log.delta.log import APP_ID
from spark_queue.log.delta.log_files import HeadRows
from spark_queue.log.heads import QueueHead, StatusHead
from spark_queue.log.step_events import LogName

_Head = TypeVar("_Head", QueueHead, StatusHead)


def seen_again(queue: str, which: LogName, known: _Head, newest: _Head | None) -> _Head:
    """Return the newest head, which must be what this process has seen before, or later.

    Raises
    ------
    LogDamagedError
        When the log ends before a step that this process has seen, or has another in its place.
    """
    if newest is None or newest.step < known.step:
        why = f"this process has seen step {known.step}, which is gone"
        raise LogDamagedError(queue, which, known.step, why)
    if newest.step == known.step and newest.token != known.token:
        why = f"this process has seen another step {known.step}"
        raise LogDamagedError(queue, which, known.step, why)
    return newest


def newest_head(
    queue: str, which: LogName, log: HeadRows[_Head], directory: Path | None, known: _Head | None
) -> _Head | None:
    """Return the newest head of a log, if it is all that is known of it.

    Parameters
    ----------
    directory : Path, optional
        Where it is, if on this machine's disk.
    known : Head, optional
        What this process has seen of it.

    Raises
    ------
    LogDamagedError
        When the log has not all the steps that something names.
    """
    require_uncut(queue, which, directory)
    newest = log.head(since=known.step if known else 0)
    if known is not None and known.step:
        return seen_again(queue, which, known, newest)
    return known if newest is None else seen_first(queue, which, log, directory, newest)


def winner(queue: str, which: LogName, log: HeadRows[_Head], lost: _Head) -> _Head:
    """Return the newest head after a step was lost to it, or to one before it.

    Raises
    ------
    LogDamagedError
        When nobody has the step: the table knows it from a later time than its rows are of.
    """
    newest = log.head(since=lost.step)
    if newest is None:
        raise LogDamagedError(queue, which, lost.step)
    return newest


def require_uncut(queue: str, which: LogName, directory: Path | None) -> None:
    """Check that the commits of a log on this machine's disk are there, and the newest is whole.

    Raises
    ------
    LogDamagedError
        When they are not.
    """
    if directory is not None:
        _require_commits(queue, which, trace(directory, APP_ID))


def require_uncut_at(queue: str, which: LogName, directory: Path, version: int) -> None:
    """Check that one commit is whole, which is known to be the newest; as :func:`require_uncut`."""
    _require_uncut(queue, which, cut_at(directory, version))


def seen_first(
    queue: str, which: LogName, log: HeadRows[_Head], directory: Path | None, newest: _Head
) -> _Head:
    """Return the newest head of a log, which must have all steps that its files name.

    Raises
    ------
    LogDamagedError
        When it has not.
    """
    if directory is None:
        return newest
    left = trace(directory, APP_ID)
    _require_commits(queue, which, left)
    if left.step is not None and left.step > newest.step:
        # Somebody may have committed it between the two looks.
        newest = log.head(since=newest.step) or newest
        _require_rows(queue, which, left.step, newest)
    return newest


def require_end(
    queue: str, which: LogName, log: HeadRows[_Head], directory: Path | None, last: int
) -> None:
    """Check that a log on this machine's disk has its steps up to one.

    Raises
    ------
    LogDamagedError
        When it has not.
    """
    if directory is None:
        return
    left = trace(directory, APP_ID)
    _require_commits(queue, which, left)
    if left.step is not None and left.step < last:
        why = f"step {last} was there, and the newest that its files name is {left.step}"
        raise LogDamagedError(queue, which, last, why)
    if left.was_restored and left.step is not None:
        _require_rows(queue, which, left.step, log.head())


def require_known_seqs(
    queue: str,
    status: HeadRows[StatusHead],
    head: StatusHead,
    newest_items: Callable[[], QueueHead],
) -> None:
    """Check, at first sight of a status log, that the item log has what it names.

    Parameters
    ----------
    newest_items : callable
        Returns the newest head of the item log. It is asked last: others go on meanwhile.

    Raises
    ------
    LogDamagedError
        When it names an item that was never enqueued, as far as the item log knows.
    """
    if not (head.claimed or head.finished or head.checkpoint.step or head.log_rows):
        return
    named, items = status.last_seq(head.step), newest_items()
    if named is not None and named > items.last_seq:
        why = f"the status log names seq {named}, and the item log ends with {items.last_seq}"
        raise LogDamagedError(queue, "queue", items.step + 1, why)


def require_known_steps(
    queue: str, status: HeadRows[StatusHead], head: StatusHead, items: QueueHead
) -> None:
    """Check that the first reader's status log has the step that the item log has read of it.

    Raises
    ------
    LogDamagedError
        When it ends before that.
    """
    # Once there were several readers, it is not told whose step that was.
    if items.last_reader or items.status_step <= head.step:
        return
    newest = status.head(since=head.step) or head
    if items.status_step > newest.step:
        why = f"the item log names step {items.status_step}, and it ends with {newest.step}"
        raise LogDamagedError(queue, "status", newest.step + 1, why)


def _require_uncut(queue: str, which: LogName, left: Trace) -> None:
    if left.cut:
        why = (
            f"its newest commit {left.cut} is empty, or ends early, as a power cut leaves it; if "
            f"nothing was told of its step, move {left.cut} and its .crc files out of _delta_log, "
            "and _newest_commit beside that, and go on without it"
        )
        raise LogDamagedError(queue, which, (left.step or 0) + 1, why)


def _require_commits(queue: str, which: LogName, left: Trace) -> None:
    _require_uncut(queue, which, left)
    if left.missing:
        why = f"its commit {left.missing} is gone, which {left.named_by} names"
        raise LogDamagedError(queue, which, (left.step or 0) + 1, why)
    if left.empty:
        why = f"its commit {left.empty} is empty, and nothing else says what its step was"
        raise LogDamagedError(queue, which, (left.step or 0) + 1, why)


def _require_rows(
    queue: str, which: LogName, step: int, newest: QueueHead | StatusHead | None
) -> None:
    if newest is None or newest.step < step:
        there = 0 if newest is None else newest.step
        why = f"step {step} was committed, and its rows end with step {there}"
        raise LogDamagedError(queue, which, step, why)
