"""The newest head of a log: by a glance at its files, or a query; and whether the log is whole."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from spark_queue.delta.store.place import QueuePlace
from spark_queue.delta.tables import glance, paths, whole
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.glance import Glance, QueryNeededError
from spark_queue.delta.tables.heads import QueueHead, StatusHead, UnknownHeadError
from spark_queue.delta.tables.log import Log
from spark_queue.delta.tables.wishes import is_fresh, small_steps
from spark_queue.errors import LogDamagedError

_Head = TypeVar("_Head", QueueHead, StatusHead)
_Seen = TypeVar("_Seen")


class Newest(Generic[_Head]):
    """Looks for the newest head of one log of a queue.

    Parameters
    ----------
    queue : str
        The queue's name, for errors.
    which : LogName
        Which log it is.
    log : Log
        The log.
    place : QueuePlace
        Where the queue is.
    """

    def __init__(self, queue: str, which: LogName, log: Log[_Head], place: QueuePlace) -> None:
        self._queue = queue
        self._which = which
        self._log: Log[_Head] = log
        self._place = place

    def after(self, known: _Head | None) -> _Head | None:
        """Return the newest head, if it is all that is known of it.

        Raises
        ------
        LogDamagedError
            When the log has not all the steps that something names.
        """
        whole.require_uncut(self._queue, self._which, self._place.directory_of(self._log))
        newest = self.at_a_glance() or self._log.head(since=known.step if known else 0)
        if known is not None and known.step:
            return whole.seen_again(self._queue, self._which, known, newest)
        if newest is None:
            return known
        directory = self._place.directory_of(self._log)
        return whole.seen_first(self._queue, self._which, self._log, directory, newest)

    def winner(self, lost: _Head) -> _Head:
        """Return the newest head after a step was lost to it, or to one before it.

        Raises
        ------
        LogDamagedError
            When nobody has the step: the table knows it from a later time than its rows are of.
        """
        newest = self._log.head(since=lost.step)
        if newest is None:
            raise LogDamagedError(self._queue, self._which, lost.step)
        return newest

    def at_a_glance(self) -> _Head | None:
        """Return the newest head without a query; ``None`` where that takes one."""
        return self.glanced(lambda glance: self._log.parsed(glance.head()))

    def glanced(self, look: Callable[[Glance], _Seen | None]) -> _Seen | None:
        """Look at the log's files on this machine's disk; ``None`` where only a query can tell."""
        directory = self._place.directory_of(self._log) if self._may_glance() else None
        with suppress(QueryNeededError, UnknownHeadError):
            try:
                return self._glanced(directory, look)
            except FileNotFoundError:
                # Merged meanwhile: the rows are in another file.
                return self._glanced(directory, look)
        return None

    @staticmethod
    def _glanced(directory: Path | None, look: Callable[[Glance], _Seen | None]) -> _Seen | None:
        seen = glance.at(directory)
        return None if seen is None else look(seen)

    def columns(self) -> Collection[str] | None:
        """Return the columns of the log; ``None`` where there is no table.

        Raises
        ------
        LogDamagedError
            When its newest commit is not whole.
        """
        directory = paths.directory_of(self._log.session, self._log.address)
        if (directory is not None and not paths.has_log(directory)) or self._log.is_unfinished():
            return None
        whole.require_uncut(self._queue, self._which, directory)
        seen = glance.at(directory)
        if seen is not None:
            return seen.columns
        return self._log.columns() if self._log.exists() else None

    def require_uncut(self, version: int) -> None:
        """Check that a commit on this machine's disk is whole, which is the newest.

        Raises
        ------
        LogDamagedError
            When it is not.
        """
        directory = self._place.directory_of(self._log)
        if directory is not None:
            whole.require_uncut_at(self._queue, self._which, directory, version)

    def require_end(self, last: int) -> None:
        """Check that the log on this machine's disk has its steps up to one.

        Raises
        ------
        LogDamagedError
            When it has not.
        """
        directory = self._place.directory_of(self._log)
        whole.require_end(self._queue, self._which, self._log, directory, last)

    def _may_glance(self) -> bool:
        session = self._log.session
        wanted = small_steps(session) != "spark"
        return wanted and self._place.is_local() and is_fresh(session)
