"""Forcing to the disk what a step has written: several files at once, so that it waits once.

A disk, and the journal of its file system, bring what several threads ask for together in little
more time than what one asks for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from pathlib import Path

#: Threads that wait for the disk beside the one that writes: the files of a step are two or three.
_THREADS = 4


def sync_file(path: Path) -> None:
    """Force the content of a file to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Force the names in a directory to the disk."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def sync_named(path: Path) -> None:
    """Force a file to the disk, and then its name."""
    sync_file(path)
    sync_directory(path.parent)


def make_directory(directory: Path) -> None:
    """Make a directory and those above it, and force their names to the disk, the highest first.

    A directory that is there may be left by a process that was killed before it forced its name.
    """
    missing = [directory]
    while not missing[-1].exists():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        # A directory that nobody may read here was not made here.
        with suppress(PermissionError):
            sync_directory(folder.parent)


def at_once(calls: Sequence[Callable[[], None]]) -> None:
    """Make one call or more that wait for the disk beside each other; return when all are over.

    Raises
    ------
    OSError
        When one of them failed; the others are over then, too.
    """
    ours, *others = calls
    begun: list[Future[None]] = []
    try:
        begun.extend(map(_begin, others))
        ours()
    finally:
        wait(begun)
    for other in begun:
        other.result()


def _begin(call: Callable[[], None]) -> Future[None]:
    try:
        return _threads().submit(call)
    except RuntimeError:
        # The interpreter ends, and begins nothing beside itself any more.
        call()
        done: Future[None] = Future()
        done.set_result(None)
        return done


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="spark-queue-disk")


if hasattr(os, "register_at_fork"):
    # The threads of the parent are not in its child.
    os.register_at_fork(after_in_child=_threads.cache_clear)
