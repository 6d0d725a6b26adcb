"""Maintenance of a log while others use it: checkpoints, merges, sweeps.

A writer asks for it, once in a hundred commits, and goes on; one thread of its process does it, as
long as there is something to tidy. Of several processes one does it at a time. It goes in small
strides with rests between, so that nobody waits for it for longer than one takes: no step, no
fork, and not the end of the process, which leaves it two seconds.

Files are read and written before the right to write is taken, which is held for the commit alone.
Who reads the table finds the same rows before it and after it; if the process is killed in between,
a file is left that no commit names (:mod:`~spark_queue.log.disk.leftover_files`).
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_queue.errors import StepLostError
from spark_queue.log import kernels as pc
from spark_queue.log.delta.commits import NOBODYS, LogFile
from spark_queue.log.delta.log_files import LogFiles
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk.leftover_files import Ages
from spark_queue.log.disk.write_lock import DEFAULT
from spark_queue.log.session_options import SMALL
from spark_queue.log.step_events import logger
from spark_queue.log.storage import UPKEEP, WRITER

#: Begins a chore, which rests wherever it yields.
Chore = Callable[[], Iterator[object]]

#: Seconds of a rest: of those who have something to do, most find the machine free.
_REST = 0.003

#: Seconds that somebody waits for another who tidies up.
_PATIENCE = 30.0

#: Seconds that the end of a process leaves to what is due, and then to the stride under way.
_LAST, _STRIDE = 2.0, 1.0


class _Chores:
    """A queue of chores, and the thread that does them."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin with nothing to do: in a child of a fork the thread of the parent is not there."""
        self._due: dict[str, Chore] = {}
        self._left: set[str] = set()
        """What is due, and nobody wants any more."""
        self._told: dict[str, str] = {}
        self._changed = threading.Condition()
        self._is_running = False
        self._is_hurried = self._is_over = False
        self._stride = threading.Lock()
        """Held while something is done, and not between: who forks waits for it."""
        self._is_held = False
        """Whether who forks has got it."""

    def ask(self, name: str, chore: Chore) -> None:
        """Have something done by the thread, soon, unless the same is due already.

        Parameters
        ----------
        name : str
            What tells it from other things that are due.
        chore : callable
            Begins it; its errors are logged.
        """
        with self._changed:
            if self._is_over or name in self._due:
                return
            self._due[name] = chore
            if not self._is_running:
                self._begin(name)

    def _begin(self, name: str) -> None:
        self._is_running = True
        try:
            threading.Thread(target=self._run, name="spark-queue", daemon=True).start()
        except RuntimeError as exc:
            # There is no room for a thread, or the process ends: the caller's step is done.
            self._is_running = False
            del self._due[name]
            self._tell(name, exc)

    def _tell(self, name: str, error: BaseException) -> None:
        """Log what kept something from being tidied up: once, until it is something else."""
        told = f"{type(error).__name__}: {error}"
        if self._told.get(name) != told:
            self._told[name] = told
            logger.warning("%s: not tidied up, and tried again later: %s", name, error)

    def wait(self, timeout: float = _LAST) -> bool:
        """Wait until nothing is due in this process; False if the time is up."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_running, timeout)

    def leave(self, of: Path | str) -> None:
        """Wait until one thing is not done any more: two seconds, then for the stride under way."""
        name = str(of)
        with self._changed:
            if self._changed.wait_for(lambda: name not in self._due, _LAST):
                return
            self._left.add(name)
            self._changed.wait_for(lambda: name not in self._due, _STRIDE)

    def end(self) -> None:
        """Wait for all chores, within bounds; then take no more."""
        self._is_hurried = True
        self.wait(_LAST)
        self._is_over = True
        self.wait(_STRIDE)

    def before_fork(self) -> None:
        """Wait for the stride under way: the child would inherit its lock for good."""
        self._is_held = self._stride.acquire(timeout=_STRIDE)

    def after_fork(self) -> None:
        """Go on in the parent."""
        if self._is_held:
            self._stride.release()
        self._is_held = False

    def _run(self) -> None:
        while (due := self._next()) is not None:
            name, chore = due
            try:
                self._do(name, chore())
            except BaseException as exc:  # noqa: BLE001 - the next time may go well
                self._tell(name, exc)
            else:
                self._told.pop(name, None)
            finally:
                with self._changed:
                    self._due.pop(name, None)
                    self._left.discard(name)
                    self._changed.notify_all()

    def _next(self) -> tuple[str, Chore] | None:
        with self._changed:
            if self._due and not self._is_over:
                return next(iter(self._due.items()))
            self._is_running = False
            self._changed.notify_all()
            return None

    def _do(self, name: str, strides: Iterator[object]) -> None:
        try:
            while not self._is_over and name not in self._left and self._goes_on(strides):
                time.sleep(0 if self._is_hurried else _REST)
        finally:
            close = getattr(strides, "close", None)
            if close is not None:
                close()

    def _goes_on(self, strides: Iterator[object]) -> bool:
        with self._stride:
            return next(strides, _END) is not _END


_END = object()

_chores = _Chores()


ask, wait, leave = _chores.ask, _chores.wait, _chores.leave

atexit.register(_chores.end)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_chores.before_fork,
        after_in_parent=_chores.after_fork,
        after_in_child=_chores.begin,
    )


#: Rows, and files, that are merged at once: so much is in memory, or lost to who is stopped.
_ROWS, _FILES = 500_000, 100


def merging(log: DeltaLog[Any]) -> Iterator[int]:
    """Merge small files, and leave those that would take long.

    Yields
    ------
    int
        After each file that was read, or written, how many have become one by that.
    """
    for files in list(groups(log.files())):
        there = {file.path for file in log.files()}
        # They may lie in files that were replaced for the sake of others.
        if all(file.path in there for file in files):
            yield from _merging(log, files)


def remove(
    log: LogFiles,
    may_have: Callable[[LogFile], bool],
    is_gone: Callable[[pa.Table], pa.ChunkedArray],
) -> int:
    """Take rows out of a log, as one commit, by who has the right to write; return how many.

    Parameters
    ----------
    may_have : callable
        Tells of a file whether it may have such rows.
    is_gone : callable
        Tells of the rows of a file which of them go.

    Raises
    ------
    StepLostError
        When somebody has committed who did not ask for the right to: no row was taken out.
    """
    gone: list[LogFile] = []
    adds: list[dict[str, Any]] = []
    count = 0
    for file in filter(may_have, log.files()):
        rows = log.rows_of([file], log.columns())
        goes = pc.fill_null(is_gone(rows), False)
        going = pc.sum(goes).as_py() or 0
        if not going:
            continue
        count += going
        gone.append(file)
        if going < rows.num_rows:
            adds.append(log.written(file.gen, rows.filter(pc.invert(goes))))
    if gone and not log.replace(gone, adds, takes_away=True):
        log.discard(adds)
        raise StepLostError("a removal of rows", 1)
    return count


def _merging(log: DeltaLog[Any], files: Sequence[LogFile]) -> Iterator[int]:
    parts = []
    for file in files:
        parts.append(log.rows_of([file], log.columns()))
        yield 0
    add = log.written(files[0].gen, pa.concat_tables(parts))
    may_be_named = False
    try:
        yield 0
        with log.place.lock(WRITER, DEFAULT):
            # A commit may stand, though what comes after it fails: then a sweep asks the log.
            may_be_named = True
            may_be_named = is_done = log.replace(files, [add], takes_away=False)
    finally:
        if not may_be_named:
            log.discard([add])
    yield len(files) if is_done else 0


def groups(files: Iterable[LogFile]) -> Iterator[list[LogFile]]:
    """Return small files that are to become one: of one partition, in the order of their steps."""
    small = [file for file in files if file.size < SMALL and file.gen != NOBODYS]
    for _, of_gen in groupby(sorted(small, key=_place), key=lambda file: file.gen):
        group: list[LogFile] = []
        for file in of_gen:
            if group and not _has_room(group, file):
                yield from _worth(group)
                group = []
            group.append(file)
        yield from _worth(group)


def _place(file: LogFile) -> tuple[int, float]:
    return file.gen, file.ranges.get("_step", (float("inf"), None))[0]


def _has_room(group: Sequence[LogFile], file: LogFile) -> bool:
    whole = (*group, file)
    return (
        len(whole) <= _FILES
        and sum(one.size for one in whole) <= SMALL
        and sum(one.rows for one in whole) <= _ROWS
    )


def _worth(group: list[LogFile]) -> Iterator[list[LogFile]]:
    if len(group) > 1:
        yield group


#: Files from which on they are merged: each adds a millisecond to the opening of the table.
MANY = 500


@dataclass(slots=True)
class Tidied:
    """The result of tidying up a log."""

    merged: int = 0
    """Files that are not read any more, because others have their rows."""
    removed: int = 0
    """Files that were left behind, and are gone."""


def look_after(log: DeltaLog[Any]) -> None:
    """Have a log tidied up by the thread of this process, if that is due; it costs nothing else."""
    if log.is_due():
        ask(str(log.directory), partial(_due, log.again()))


def tidy(log: DeltaLog[Any], ages: Ages | None = None) -> Tidied:
    """Merge all small files of a log, and remove leftovers, now."""
    done = Tidied()
    with log.place.lock(UPKEEP, _PATIENCE) as is_mine:
        if not is_mine:
            return done
        log.sum_up(forgets=True)
        done.merged = sum(merging(log))
        done.removed = log.sweep(ages)
    return done


def sweep_replaced(log: DeltaLog[Any]) -> int:
    """Remove the replaced files of a log, and return how many."""
    with log.place.lock(UPKEEP, _PATIENCE) as is_mine:
        return log.sweep(Ages(replaced=True)) if is_mine else 0


def _due(log: DeltaLog[Any]) -> Iterator[int]:
    """Do the maintenance that is due, unless another process does."""
    with log.place.lock(UPKEEP, 0) as is_mine:
        if not is_mine:
            return
        yield 0
        # Another process may have done it since it was found due.
        if not log.is_readable() or not log.sum_up():
            return
        yield 0
        if len(log.files()) > MANY:
            yield from merging(log)
            log.sweep()
