"""A log kept short beside those who work with it: summed up, its small files merged, swept.

A writer asks for it, once in a hundred commits, and goes on; the thread of its process does
it (:mod:`~spark_queue.delta.tables.chores`). Of several processes one does it at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from spark_queue.delta.tables import chores
from spark_queue.delta.tables.local_log import LocalLog
from spark_queue.delta.tables.merging import merging
from spark_queue.delta.tables.resting import resting
from spark_queue.delta.tables.sweeping import Ages

#: Files from which on they are merged: each adds a millisecond to the opening of the table.
MANY = 500


@dataclass(slots=True)
class Tidied:
    """What was done to a log."""

    merged: int = 0
    """Files that are not read any more, because others have their rows."""
    removed: int = 0
    """Files that were left behind, and are gone."""


def look_after(log: LocalLog[Any]) -> None:
    """Have a log tidied up by the thread of this process, if that is due; it costs nothing else."""
    if log.is_due():
        chores.ask(str(log.directory), partial(_due, log.again()))


def tidy(log: LocalLog[Any], ages: Ages | None = None) -> Tidied:
    """Merge all small files of a log, and remove what was left behind, at once."""
    done = Tidied()
    with resting(log.directory) as is_mine:
        if not is_mine:
            return done
        log.sum_up()
        done.merged = sum(merging(log))
        done.removed = log.sweep(ages)
    return done


def _due(log: LocalLog[Any]) -> Iterator[int]:
    """Do what is due, unless somebody else does."""
    with resting(log.directory, timeout=0) as is_mine:
        if not is_mine:
            return
        yield 0
        # Another process may have done it since it was found due.
        if not log.is_readable() or not log.sum_up():
            return
        yield 0
        if len(log.files()) > MANY:
            yield from merging(log)
            log.sweep()


def leave(directory: Path) -> None:
    """Have this process do nothing more in a directory, after two seconds at most."""
    chores.leave(str(directory))


#: Waits for what this process has asked for.
wait = chores.wait
