"""Use of deltalake, and of locks, in a child of a fork."""

from __future__ import annotations

from threading import RLock

from spark_queue.errors import SetupError
from spark_queue.waiting.processes import Owner

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
