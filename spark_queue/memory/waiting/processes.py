"""The exit and the fork of a process, of which its queues hear nothing by themselves."""

from __future__ import annotations

import atexit
import os
from typing import Protocol
from weakref import WeakSet

from spark_queue.errors import SetupError


class Owner:
    """The process that began to use something, whose threads a child of a fork does not have.

    Parameters
    ----------
    what : str
        What it uses, as the subject of a sentence.
    """

    __slots__ = ("_pid", "_what")

    def __init__(self, what: str) -> None:
        self._pid = os.getpid()
        self._what = what

    def __reduce__(self) -> tuple[type[Owner], tuple[str]]:
        # A copy that came by pickle, as with a batch of Spark Connect, began to use it there.
        return Owner, (self._what,)

    def is_here(self) -> bool:
        """Whether this is the process."""
        return os.getpid() == self._pid

    def require(self) -> None:
        """Raise in a child of the process.

        Raises
        ------
        SetupError
            It says what to do.
        """
        if not self.is_here():
            raise self.refusal()

    def refusal(self) -> SetupError:
        """Return the error of a child."""
        return SetupError(
            f"{self._what} was in use before this process was forked, and does not work in a child "
            "of a fork: start the child by spawn or forkserver, as in "
            "multiprocessing.get_context('spawn'), and open the queue there; or fork before "
            "anything of a queue is used"
        )


class Resident(Protocol):
    """What lives in one process, and ends with it."""

    def at_exit(self) -> None:
        """Say which work is lost. Called at the regular end of the process."""

    def after_fork(self) -> None:
        """Part from the parent. Called in the child, whose only thread it runs on.

        The threads of the parent are not there, and what they held is held for ever.
        """


_RESIDENTS: WeakSet[Resident] = WeakSet()


def settle_in(resident: Resident) -> None:
    """Call a resident at the exit and after a fork while it exists."""
    _RESIDENTS.add(resident)


def _exit() -> None:
    for resident in list(_RESIDENTS):
        resident.at_exit()


def _fork() -> None:
    for resident in list(_RESIDENTS):
        resident.after_fork()


atexit.register(_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fork)
