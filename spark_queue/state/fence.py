"""Exclusive hold of a queue by a front.

While a front holds the queue, nobody else writes to it: each step carries its holder, and one that
would follow upon a step of another's is refused. A hold is over when it says so; when its process
has ended, which is told on a disk of this machine; or elsewhere when its time runs out.
"""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from spark_queue.log.disk import liveness
from spark_queue.log.heads import Hold, QueueHead, StatusHead

_Head = TypeVar("_Head", QueueHead, StatusHead)

#: How long after its end a hold is not renewed any more, for clocks that differ.
_LONG_GONE = timedelta(hours=1)

_ours: set[str] = set()


def life_of(directory: Path | None) -> str:
    """Return this process's token; with a queue on disk, others can tell when it ends."""
    if directory is None:
        return f"{socket.gethostname()}/{os.getpid()}"
    return liveness.mine(directory)


def new_holder(directory: Path | None) -> str:
    """Return a token of this process, for a front that holds a queue."""
    token = f"{life_of(directory)}/{uuid.uuid4().hex[:8]}"
    _ours.add(token)
    return token


def leave(token: str) -> None:
    """Note that a front of this process released its hold."""
    _ours.discard(token)


def is_ours(token: str) -> bool:
    """Whether a front of this process holds its queue: not left, not taken over here."""
    return token in _ours


# rule again: end of a worker
def is_over(hold: Hold, now: datetime, directory: Path | None) -> bool:
    """Whether a hold has ended.

    Parameters
    ----------
    hold : Hold
        As the newest step has it.
    now : datetime
        The instant of the question.
    directory : Path, optional
        Where the queue is on this machine's disk.
    """
    if not hold.by:
        return True
    if directory is not None:
        if hold.by in _ours:
            return False
        ended = liveness.has_ended(directory, _life(hold))
        if ended is not None:
            return ended or _life(hold) == liveness.mine(directory)
    return datetime.fromisoformat(hold.until) <= now


def is_gone(hold: Hold, now: datetime, directory: Path | None) -> bool:
    """Whether a front ended without releasing its hold.

    On a shared store, where processes cannot be seen, the hold must have lapsed long ago.
    """
    since = now if directory is not None else now - _LONG_GONE
    return bool(hold.by) and is_over(hold, since, directory)


def is_of_another(hold: Hold, directory: Path) -> bool:
    """Whether another live process on this disk holds a queue."""
    if not hold.by or _life(hold) == liveness.mine(directory):
        return False
    return liveness.has_ended(directory, _life(hold)) is False


def pid_of(hold: Hold) -> int | None:
    """Return the process of a holder, where its token names one."""
    parts = hold.by.split("/")
    return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else None


def with_hold(head: _Head, by: str, until: datetime) -> _Head:
    """Return a head with a front's hold."""
    return replace(head, hold=Hold(by=by, until=until.isoformat()))


def without_hold(head: _Head) -> _Head:
    """Return a head without a hold."""
    return replace(head, hold=Hold())


def time_left(hold: Hold, now: datetime) -> timedelta:
    """Return how long a hold lasts at most."""
    return datetime.fromisoformat(hold.until) - now


def _life(hold: Hold) -> str:
    return hold.by.rpartition("/")[0]
