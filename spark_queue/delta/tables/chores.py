"""One thread of a process that tidies up beside it, as long as there is something to tidy.

It goes in small strides with pauses between, so that nobody waits for it for longer than one takes:
no step, no fork, and not the end of the process, which leaves it two seconds.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator

from spark_queue.delta.tables.facts import logger

#: Begins a chore, which pauses wherever it yields.
Chore = Callable[[], Iterator[object]]

#: Seconds of a pause: of those who have something to do, most find the machine free.
_PAUSE = 0.003

#: Seconds that the end of a process leaves to what is due, and then to the stride under way.
_LAST, _STRIDE = 2.0, 1.0


class _Chores:
    """What is to be done, and the thread that does it."""

    def __init__(self) -> None:
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
        """Have something done, unless the same is due."""
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

    def wait(self, timeout: float) -> bool:
        """Wait until nothing is due, and tell whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_running, timeout)

    def leave(self, name: str) -> None:
        """Let one thing come to its end, within bounds; then it is left as it is."""
        with self._changed:
            if self._changed.wait_for(lambda: name not in self._due, _LAST):
                return
            self._left.add(name)
            self._changed.wait_for(lambda: name not in self._due, _STRIDE)

    def end(self) -> None:
        """Let what is due come to its end, within bounds; then there is nothing more to do."""
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
                time.sleep(0 if self._is_hurried else _PAUSE)
        finally:
            close = getattr(strides, "close", None)
            if close is not None:
                close()

    def _goes_on(self, strides: Iterator[object]) -> bool:
        with self._stride:
            return next(strides, _END) is not _END


_END = object()

_chores = _Chores()


def ask(name: str, chore: Chore) -> None:
    """Have something done by the thread, soon, unless the same is due already.

    Parameters
    ----------
    name : str
        What tells it from other things that are due.
    chore : callable
        Begins it; its errors are logged.
    """
    _chores.ask(name, chore)


def wait(timeout: float = _LAST) -> bool:
    """Wait until nothing is due in this process, and tell whether that is so."""
    return _chores.wait(timeout)


def leave(name: str) -> None:
    """Wait until one thing is not done any more: for two seconds, then for the stride under way."""
    _chores.leave(name)


def _end() -> None:
    _chores.end()


def _before_fork() -> None:
    _chores.before_fork()


def _after_fork() -> None:
    _chores.after_fork()


def _begin_anew() -> None:
    """Begin with nothing to do: the thread of the parent is not here."""
    global _chores  # noqa: PLW0603 - one for each process
    _chores = _Chores()


atexit.register(_end)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_begin_anew
    )
