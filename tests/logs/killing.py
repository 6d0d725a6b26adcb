"""A child that appends to a log and is killed at a given point."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from spark_queue.log.heads import following
from tests.logs.logs import TestedLog, rows


def kill_at(point: int, log: TestedLog, place: str) -> tuple[int, bool]:
    """Append two steps in a child that ends at a point of its work on files of a place.

    Returns
    -------
    tuple of int and bool
        How many steps it told, and whether it came to its end.
    """
    reading, writing = os.pipe()
    head = log.head()
    child = os.fork()
    if not child:
        try:
            _die_at(point, place)
            for _ in range(2):
                head = following(head)
                if log.append(head, rows(head.step)):
                    os.write(writing, b".")
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        count = len(told.read())
    _, status = os.waitpid(child, 0)
    assert os.WIFEXITED(status) or os.WTERMSIG(status) == signal.SIGKILL
    return count, os.WIFEXITED(status)


def _die_at(point: int, place: str) -> None:
    """Kill this process when it opens, names, removes or forces a file once more than so often."""
    left = [point]

    def count() -> None:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event in ("open", "os.link", "os.remove", "os.mkdir") and place in str(args[:2]):
            count()

    real = os.fsync

    def fsync(file: int) -> None:
        real(file)
        count()

    setattr(os, "fsync", fsync)  # noqa: B010 - of this child alone
    sys.addaudithook(audit)
