"""Liveness of a worker."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from spark_queue.delta.tables import lives
from spark_queue.results import Liveness

#: How long after the end of its lease a worker counts as gone whose process nobody can ask for.
_LONG = timedelta(hours=1)


def judge(
    directory: Path | None, worker_id: str | None, until: datetime | None, now: datetime
) -> Liveness | None:
    """Decide whether a worker lives.

    A process that works on this machine's disk is known by its life lock, as a claim knows it. All
    others are known by their lease.

    Parameters
    ----------
    directory : Path, optional
        The directory of a queue on this machine's disk.
    worker_id : str, optional
        As the claim names the worker.
    until : datetime, optional
        When its lease ends; ``None`` where it holds nothing.
    now : datetime
        The instant of the question.

    Returns
    -------
    Liveness or None
        ``None`` where it holds nothing, and nobody can ask for its process.
    """
    ended = _has_ended(directory, worker_id)
    if ended:
        return Liveness.GONE
    if until is None:
        return None if ended is None else Liveness.ALIVE
    if until > now:
        return Liveness.ALIVE
    return Liveness.GONE if ended is None and until + _LONG <= now else Liveness.LATE


def _has_ended(directory: Path | None, worker_id: str | None) -> bool | None:
    if directory is None or not worker_id:
        return None
    try:
        return lives.has_ended(directory, worker_id)
    except PermissionError:
        # The file of another user's process: only its lease is left to go by.
        return None
