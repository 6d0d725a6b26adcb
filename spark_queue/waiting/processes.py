"""The exit and the fork of a process, of which its queues hear nothing by themselves."""

from __future__ import annotations

import atexit
import os
from typing import Protocol
from weakref import WeakSet


class Resident(Protocol):
    """What lives in one process, and ends with it."""

    def at_exit(self) -> None:
        """Say what is lost. Called at the regular end of the process."""
        ...

    def after_fork(self) -> None:
        """Part from the parent. Called in the child, whose only thread it runs on.

        The threads of the parent are not there, and what they held is held for ever.
        """
        ...


_RESIDENTS: WeakSet[Resident] = WeakSet()


def settle_in(resident: Resident) -> None:
    """Have something called at the exit and after a fork, as long as it is there."""
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
