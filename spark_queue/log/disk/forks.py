"""Use of deltalake, and of locks, in a child of a fork."""

from __future__ import annotations

import os
from threading import RLock
from typing import Protocol
from weakref import WeakSet

from spark_queue.errors import SetupError
from spark_queue.memory.waiting.processes import Owner


class Parting(Protocol):
    """A thing of a process that a child of a fork has, too."""

    def leave_parent(self) -> None:
        """Forget what a thread of the parent had in hand: it is not in this child."""


_parting: WeakSet[Parting] = WeakSet()

#: What was in use, in the words of the error.
_WHAT = "the library deltalake, which reads the tables of queues,"

_owner: Owner | None = None


def require_unforked() -> None:
    """Raise where a parent has used deltalake: its threads are not in a child of a fork.

    Raises
    ------
    SetupError
        It says what to do.
    """
    global _owner  # noqa: PLW0603 - one for each process
    if _owner is None:
        _owner = Owner(_WHAT)
    _owner.require()


def fork_error() -> SetupError:
    """Return the error of a child whose parent has used deltalake."""
    return Owner(_WHAT).refusal()


def is_stuck(lock: RLock) -> bool:
    """Tell whether another thread has a lock: in a child of a fork that one is gone."""
    if not lock.acquire(blocking=False):
        return True
    lock.release()
    return False


def part_in_children(thing: Parting) -> None:
    """Have a thing leave the parent in every child of a fork, as long as it is there."""
    _parting.add(thing)


def _part_from_parent() -> None:
    for thing in list(_parting):
        thing.leave_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_part_from_parent)
