"""Who holds a queue for itself: a front, which answers from memory and writes in groups.

While it does, nobody else writes to the queue: each step carries its holder, and one that would
follow upon a step of another's is refused. A holder is over when it says so, when its time runs
out, or, on a disk of this machine, when its process has ended.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from spark_queue.delta.tables.heads import Hold, QueueHead, StatusHead

_Head = TypeVar("_Head", QueueHead, StatusHead)

_lock = threading.Lock()
_ours: set[str] = set()


def new_holder() -> str:
    """Return a token of this process, for a front that holds queues."""
    token = f"{_process()}/{uuid.uuid4().hex[:8]}"
    with _lock:
        _ours.add(token)
    return token


def leave(token: str) -> None:
    """Say that a front of this process holds nothing any more."""
    with _lock:
        _ours.discard(token)


def is_ours(token: str) -> bool:
    """Tell whether a front of this process has not left, and was not taken over from here."""
    return token in _ours


def is_over(hold: Hold, now: datetime, *, only_writer: bool) -> bool:
    """Tell whether a hold has ended.

    Parameters
    ----------
    hold : Hold
        As the newest step has it.
    now : datetime
        The instant of the question.
    only_writer : bool
        Whether no other process can write, so that any other holder than ours has ended.
    """
    if not hold.by:
        return True
    if only_writer:
        with _lock:
            return hold.by not in _ours
    return datetime.fromisoformat(hold.until) <= now


def held(head: _Head, by: str, until: datetime) -> _Head:
    """Return a head whose step says that a front holds the queue."""
    return replace(head, hold=Hold(by=by, until=until.isoformat()))


def freed(head: _Head) -> _Head:
    """Return a head whose step says that nobody holds the queue."""
    return replace(head, hold=Hold())


def time_left(hold: Hold, now: datetime) -> timedelta:
    """Return how long a hold lasts at most."""
    return datetime.fromisoformat(hold.until) - now


def _process() -> str:
    return f"{socket.gethostname()}/{os.getpid()}"
