"""What a process has for itself where it is a thread of another; and a directory to work in."""

from __future__ import annotations

import copy
import copyreg
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import orders_disk
from spark_queue.log.disk import fsync, liveness, write_lock
from spark_queue.log.disk.write_lock import LockFile
from spark_queue.state import catch_up, fence

# What a process remembers is copied before each run; its locks are free then.
copyreg.pickle(type(threading.RLock()), lambda _: (threading.RLock, ()))

#: Where the library keeps what a process has for itself.
_OWN: tuple[tuple[ModuleType, str], ...] = (
    (catch_up, "_caches"),
    (write_lock, "_turnstiles"),
    (fsync, "_forced"),
    (liveness, "_lives"),
    (fence, "_ours"),
)

#: What of that is copied for each run. Locks and lives are real, and begun once.
_COPIED = ("_caches", "_forced", "_ours")


@dataclass(slots=True)
class Process:
    """What a process has for itself."""

    own: dict[str, Any] = field(default_factory=dict)
    turns: dict[LockFile, str] = field(default_factory=dict)
    """The tables that it may write to now, by the lock of each."""

    def __post_init__(self) -> None:
        self.own = {name: type(getattr(module, name))() for module, name in _OWN}

    def copied(self) -> Process:
        """Return a process that remembers the same, and is the same to others."""
        twin = Process()
        twin.own |= {name: copy.deepcopy(self.own[name]) for name in _COPIED}
        twin.own["_lives"] = self.own["_lives"]
        return twin

    def end_life(self) -> None:
        """Let others see that it has ended."""
        for life in vars(self.own["_lives"])["_known"].values():
            life.file.give_up()

    def begin_life(self) -> None:
        """Let others see that it lives, under the name that it had."""
        for path, life in vars(self.own["_lives"])["_known"].items():
            if not life.runs(Path(path)):
                _, pid, token = life.name.split("/")
                life.file.take(f"{path}/_lives/{pid}-{token}")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let this be the process that the library runs in."""
        before = {name: getattr(module, name) for module, name in _OWN}
        self.enter()
        try:
            yield
        finally:
            for module, name in _OWN:
                setattr(module, name, before[name])

    def enter(self) -> None:
        """Let the library find what is this process's own."""
        for module, name in _OWN:
            setattr(module, name, self.own[name])


class Ground:
    """A directory that is set back to what it was.

    Parameters
    ----------
    place : Path
        The directory.
    kept : str
        The name of a directory beside it, for what is kept.
    """

    def __init__(self, place: Path, kept: str) -> None:
        self._place, self._kept = place, place.with_name(kept)
        shutil.rmtree(self._kept, ignore_errors=True)
        shutil.copytree(place, self._kept)
        self._names = frozenset(_files(place))

    def restore(self) -> None:
        """Remove what is new, and bring back what is gone or is written over."""
        there = frozenset(_files(self._place))
        for name in there - self._names:
            orders_disk.remove(f"{self._place}{name}")
        for name in self._names:
            if name not in there or name.endswith(("_newest_commit", "_redo")):
                shutil.copy2(f"{self._kept}{name}", f"{self._place}{name}")


def _files(place: Path) -> Iterator[str]:
    """Return the files in a directory, each with a leading slash."""
    for folder, _, names in os.walk(place):
        yield from (f"{folder.removeprefix(str(place))}/{name}" for name in names)
