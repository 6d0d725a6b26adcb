"""Forcing to the disk what steps have written: several files at once, so that it waits once.

A disk, and the journal of its file system, bring what several threads ask for together in little
more time than what one asks for.
"""

from __future__ import annotations

import os
import re
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

from spark_queue.log.delta import version_note
from spark_queue.log.delta.integrity import COMMIT, birth, read_actions

#: A table by its directory, and by its first commit.
Birth: TypeAlias = tuple[str, object]

_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\..*parquet$")
_LAST_CHECKPOINT = "_last_checkpoint"

#: Commits that are forced one by one at most.
_MANY = 1_000

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


def put_file(file: Path, content: bytes) -> None:
    """Write a file whole, over an older one; its content is on the disk before its name is."""
    new = file.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        new.write_bytes(content)
        sync_file(new)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
    sync_directory(file.parent)


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
    """Make calls that wait for the disk, all at once.

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


#: The newest version of each table that is on the disk with all before it, by the table's birth.
_forced: dict[Birth, int] = {}


def sync_commits(directory: Path, known: Mapping[int, int] | None = None) -> None:
    """Force all commits of a table to the disk, and the files that they name.

    Those that this process has forced before are left alone, and those of which another says so.

    Parameters
    ----------
    directory : Path
        Where the table is.
    known : mapping of int to int, optional
        Versions that are safe elsewhere, each with the checksum of its commit.
    """
    log = directory / "_delta_log"
    names = os.listdir(log)  # noqa: PTH208 - thousands of names, of which few are wanted
    commits = sorted(name for name in names if COMMIT.fullmatch(name))
    forced = max(_forced.get(birth_of(directory), -1), int(version_note.read(directory)[1] or -1))
    new = [name for name in commits if int(name[:20]) > forced]
    if new and (int(new[-1][:20]) > forced + len(new) or len(new) > _MANY):
        # What a checkpoint sums up may be on no disk, and its commits are gone, or many; and
        # one that was made meanwhile may not be in the list.
        os.sync()
        new = new[-1:]
    safe = [name for name in new if (known or {}).get(int(name[:20])) == _checksum(log / name)]
    wanted = [name for name in new if name not in safe]
    folders = {path.parent for name in wanted for path in _forced_files(directory, log / name)}
    summed = [name for name in names if _CHECKPOINT.match(name) and int(name[:20]) > forced]
    for name in (*summed, *([_LAST_CHECKPOINT] if summed and _LAST_CHECKPOINT in names else ())):
        sync_file(log / name)
    for folder in (*folders, directory, directory.parent, log) if wanted or not commits else ():
        sync_directory(folder)
    newest = max([forced, *(int(name[:20]) for name in new)])
    note_forced(birth_of(directory), newest)
    if new and newest:
        version_note.write(directory, newest, is_forced=True)


def _checksum(commit: Path) -> int:
    return zlib.crc32(commit.read_bytes())


def note_forced(table: Birth, version: int) -> None:
    """Remember that all versions of a table up to one are on the disk."""
    _forced[table] = version


def is_forced(table: Birth, version: int) -> bool:
    """Tell whether this process knows that a version of a table is on the disk."""
    return _forced.get(table, -1) >= version


def birth_of(directory: Path) -> Birth:
    """Return the identity of a table, which a successor does not share."""
    return str(directory), birth(directory)


def _forced_files(directory: Path, commit: Path) -> list[Path]:
    """Force a commit and its files to the disk, and return the files that are there."""
    found = []
    for action in read_actions(commit.read_text(encoding="utf-8")):
        path = action.get("add", {}).get("path")
        # A file may have been replaced and removed since.
        if path is not None and (file := directory / unquote(path)).exists():
            sync_file(file)
            found.append(file)
    sync_file(commit)
    return found
