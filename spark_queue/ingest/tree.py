"""The files below a directory, as they are at one walk."""

# A Path object for each of a million files costs more than the walk itself.
# ruff: noqa: PTH100, PTH112, PTH116, PTH120, PTH206

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from spark_queue.errors import InvalidArgumentError

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)

#: What a timestamp can hold; a file system may claim any time.
_EARLIEST = (datetime(1, 1, 2, tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND
_LATEST = (datetime(9999, 12, 30, tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND

_ESCAPED = re.compile(r"\\x([89a-f][0-9a-f])")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file, with what tells this version of it from any other."""

    path: str
    """Absolute. Bytes of a name that are no UTF-8 are written as ``\\xNN``."""
    size: int
    """In bytes."""
    modified: int
    """When it was last changed, in microseconds since 1970."""
    tenant: str
    """The first directory below the source, ``""`` for a file at the top."""
    directory: str
    """The directory that it lies in, absolute."""


def walk(source: str | os.PathLike[str]) -> Iterator[FoundFile]:
    """Find everything below a directory that is not a directory, in path order per directory.

    Symbolic links are followed, except back into a directory that the walk is in. What cannot be
    looked into (a dangling link, a directory without permission) is found as a file, so that
    reading it fails and says why, instead of being left out.

    Raises
    ------
    InvalidArgumentError
        When the source is no directory, or cannot be listed.
    """
    root = os.path.abspath(source)
    if not os.path.isdir(root):
        raise InvalidArgumentError(f"source {os.fspath(source)!r} is not a directory")
    if not os.access(root, os.R_OK | os.X_OK):
        raise InvalidArgumentError(f"source {os.fspath(source)!r} cannot be listed: no permission")
    waiting = [(root, frozenset[tuple[int, int]]())]
    while waiting:
        directory, inside = waiting.pop()
        found = _listed(directory)
        if found is None:
            yield _found(root, directory)
            continue
        within = inside | {_identity(directory)}
        for path, is_directory in found:
            if not is_directory:
                yield _found(root, path)
            elif _identity(path) not in within:
                waiting.append((path, within))


def modified_micros(facts: os.stat_result) -> int:
    """Return when a file was last changed, in microseconds since 1970, as a timestamp holds it."""
    return max(_EARLIEST, min(_LATEST, facts.st_mtime_ns // 1000))


def micros(at: datetime) -> int:
    """Return an aware time in microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def located(path: str) -> str:
    """Return the path that the operating system knows for one of :class:`FoundFile`."""
    if os.path.lexists(path) or not _ESCAPED.search(path):
        return path
    raw = _ESCAPED.sub(lambda byte: chr(0xDC00 + int(byte.group(1), 16)), path)
    return raw if os.path.lexists(raw) else path


def _listed(directory: str) -> list[tuple[str, bool]] | None:
    """Return the entries of a directory and which of them are directories; None where barred."""
    try:
        with os.scandir(directory) as entries:
            return sorted((entry.path, _is_directory(entry)) for entry in entries)
    except OSError:
        return None


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link to itself, for example: not to be walked into.
        return False


def _identity(directory: str) -> tuple[int, int]:
    try:
        facts = os.stat(directory)
    except OSError:
        facts = os.lstat(directory)
    return facts.st_dev, facts.st_ino


def _found(root: str, path: str) -> FoundFile:
    facts = _facts(path)
    below = os.path.relpath(path, root).split(os.sep)
    is_directory = facts is not None and stat.S_ISDIR(facts.st_mode)
    return FoundFile(
        path=_text(path),
        size=0 if facts is None else facts.st_size,
        modified=0 if facts is None else modified_micros(facts),
        tenant=_text(below[0]) if len(below) > 1 or is_directory else "",
        directory=_text(os.path.dirname(path)),
    )


def _facts(path: str) -> os.stat_result | None:
    """Return the facts of a file, or of a link that leads nowhere; None where it is gone."""
    with suppress(OSError):
        return os.stat(path)
    with suppress(OSError):
        return os.lstat(path)
    return None


def _text(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
