"""First of those who wait for items of a queue on this machine's disk.

One waiter looks at the log and claims; the others look at the file that it has locked, which costs
microseconds. Who worked last comes first: it has followed nearly all of the log, and those that are
not needed follow none of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from spark_queue.log.disk.write_lock import LockFile

_FILE = "_waiter.lock"

#: The part of the time since its last item that a waiter leaves to others, and its bounds in
#: seconds.
_PART = 0.25
_LEAST, _MOST = 0.001, 0.1

#: Seconds after which a first waiter that gives no sign may be stopped.
_SILENCE = 1.0

#: The sign of one that leaves something to do.
_CALLS = 0.0

#: Characters of an instant.
_WIDTH = 20


class FirstWaiter:
    """The right to be the one waiter of a log that looks at it.

    It is worth time only: who looks without it claims as safely. One that was killed has it no
    more, and past one that is stopped everybody looks.

    Parameters
    ----------
    directory : Path, optional
        The log's; ``None`` where it is on no disk of this machine: there everybody looks.
    clock : callable
        Returns seconds on a clock that all processes of this machine have in common.
    """

    def __init__(self, directory: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = None if directory is None else directory / _FILE
        self._file = LockFile()
        self._clock = clock
        self._worked = clock()

    def take(self) -> bool:
        """Be the first waiter, and say that it lives; False while another one is."""
        if self._path is None:
            return True
        if not self.is_first:
            silence = self._silence(self._path)
            if silence < self.patience():
                return False
            # One that is stopped, or in a long claim, keeps nobody from looking.
            if not self._lock(self._path):
                return silence > _SILENCE
        self._sign(self._clock())
        return True

    @property
    def is_first(self) -> bool:
        """Whether all others stand behind this one."""
        return self._path is not None and self._file.is_held(str(self._path))

    def leave(self, *, calls_next: bool = False) -> None:
        """Let another one be first, perhaps at once: this one has something to do."""
        if calls_next and self.is_first:
            self._sign(_CALLS)
        self._worked = self._clock()
        self._file.give_up()

    def patience(self) -> float:
        """Return the seconds without a first one after which this one is first."""
        idle = self._clock() - self._worked
        return min(max(_PART * idle, _LEAST), _MOST)

    def _sign(self, at: float) -> None:
        # On a full disk others look, too.
        with suppress(OSError):
            self._file.write(b"%-*.6f" % (_WIDTH, at))

    def _lock(self, path: Path) -> bool:
        try:
            return self._file.take(str(path))
        except OSError:
            # The queue is gone, or may not be written to: the claim says so.
            return False

    def _silence(self, path: Path) -> float:
        """Return for how many seconds no first waiter has said that it lives."""
        try:
            silence = self._clock() - float(path.read_bytes())
        except (OSError, ValueError):
            return math.inf
        # A sign of the time before this machine's start says nothing.
        return silence if silence >= 0 else math.inf
