"""First of those who wait for items of a queue on this machine's disk.

One waiter looks at the log and claims; the others look at the file that it has locked, which costs
microseconds. Who worked last comes first: it has followed nearly all of the log, and those that are
not needed follow none of it.
"""

from __future__ import annotations

import time
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

    Parameters
    ----------
    directory : Path, optional
        The log's; ``None`` where it is on no disk of this machine: there everybody looks.
    """

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / _FILE
        self._file = LockFile()
        self._is_first = False
        self._worked = time.monotonic()
        self.is_spare = False
        """Whether others do without this one, which then waits for longer, and calls none."""

    def take(self) -> bool:
        """Be the first waiter, and say that it lives; False while another one is."""
        if self._path is None:
            return True
        now = time.monotonic()
        if not self._is_first:
            silence = now - self._last_sign()
            if 0 <= silence < self.patience():
                return False
            self._is_first = self._lock(self._path)
            # One that is stopped, or in a long claim, keeps nobody from looking.
            if not self._is_first:
                return silence > _SILENCE
        self._sign(now)
        return True

    @property
    def stands_in_line(self) -> bool:
        """Whether there is one line for all who wait."""
        return self._path is not None

    @property
    def is_first(self) -> bool:
        """Whether all others stand behind this one."""
        return self._is_first

    def leave(self, *, calls_next: bool = False) -> None:
        """Let another one be first, perhaps at once: this one has something to do."""
        if calls_next and not self.is_spare:
            self._sign(_CALLS)
        self._worked = time.monotonic()
        self._is_first = False
        self._file.give_up()

    def _sign(self, at: float) -> None:
        self._file.write(b"%-*.6f" % (_WIDTH, at))

    def patience(self) -> float:
        """Return for how many seconds nobody is first before this one is."""
        idle = time.monotonic() - self._worked
        return min(max(_PART * idle, _LEAST), _SILENCE if self.is_spare else _MOST)

    def _lock(self, path: Path) -> bool:
        try:
            return self._file.take(str(path))
        except OSError:
            # The queue is gone, or may not be written to: the claim says so.
            return False

    def _last_sign(self) -> float:
        """Return when a first waiter has last said that it lives."""
        try:
            return float((self._path or Path()).read_bytes())
        except (OSError, ValueError):
            return 0.0
