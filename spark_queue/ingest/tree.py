"""The files below a directory, as they are at one walk."""

# A Path object for each of a million files costs more than the walk itself.
# ruff: noqa: PTH100, PTH112, PTH116, PTH119, PTH120, PTH206

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from fnmatch import translate
from typing import Literal

from spark_queue import checks
from spark_queue.checks import require_path
from spark_queue.errors import InvalidArgumentError
from spark_queue.wording import shorten

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)

#: What a timestamp can hold; a file system may claim any time.
_EARLIEST = (datetime(1, 1, 2, tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND
_LATEST = (datetime(9999, 12, 30, tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND

#: An entry of a directory; ``link``: a symbolic link that leads to a directory.
_Kind = Literal["file", "directory", "link"]

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


def walk(
    source: str | os.PathLike[str], *, exclude: Sequence[str] = (), follow_links: bool = False
) -> Iterator[FoundFile]:
    """Find everything below a directory that is not a directory, in path order per directory.

    What cannot be looked into (a dangling link, a directory without permission) is found as a file,
    so that reading it fails and says why, instead of being left out.

    Parameters
    ----------
    source : str or path
        A directory.
    exclude : sequence of str
        Patterns as the shell has them, of files and directories to leave out: matched to the name,
        or where the pattern has a ``/`` to the path below the source, of which ``*`` matches any
        part.
    follow_links : bool
        Also look into directories that a symbolic link leads to. Each directory is read once: by
        its own path, if that is below the source, else by one of the links. Links to files are
        files, with or without this.

    Raises
    ------
    InvalidArgumentError
        When the source is no directory, or cannot be listed; or ``exclude`` is no list of patterns.
    """
    is_excluded = _excluding(exclude)
    root = _root(source)
    real, linked = [root], list[str]()
    read = set[tuple[int, int]]()
    while real or linked:
        by_link = not real
        directory = (real or linked).pop()
        identity = _identity(directory)
        if by_link and identity in read:
            continue
        read.add(identity)
        for path, kind in _list_directory(directory):
            if path != directory and is_excluded(_below(root, path)):
                continue
            if kind == "file":
                yield _found_file(root, path)
            elif kind == "directory" and not by_link:
                real.append(path)
            elif kind == "directory" or follow_links:
                linked.append(path)


def modified_micros(facts: os.stat_result) -> int:
    """Return when a file was last changed, in microseconds since 1970, as a timestamp holds it."""
    return max(_EARLIEST, min(_LATEST, facts.st_mtime_ns // 1000))


def micros(at: datetime) -> int:
    """Return an aware time in microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND


def locate(path: str) -> str:
    """Return the path that the operating system knows for one of :class:`FoundFile`."""
    if os.path.lexists(path) or not _ESCAPED.search(path):
        return path
    raw = _ESCAPED.sub(lambda byte: chr(0xDC00 + int(byte.group(1), 16)), path)
    return raw if os.path.lexists(raw) else path


def _root(source: str | os.PathLike[str]) -> str:
    root = os.path.abspath(require_path("source", source))
    if not os.path.isdir(root):
        raise InvalidArgumentError(f"source {shorten(os.fspath(source))} is not a directory")
    if not os.access(root, os.R_OK | os.X_OK):
        raise InvalidArgumentError(f"source {os.fspath(source)!r} cannot be listed: no permission")
    return root


def _excluding(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return what tells of a path below the source whether it is left out."""
    checks.require_iterable("exclude", patterns)
    if isinstance(patterns, str) or not all(map(_is_pattern, patterns)):
        raise InvalidArgumentError(
            f"exclude is {shorten(patterns)}: give a list of patterns, as in ['*.pyc', "
            "'site-packages']"
        )
    by_name = _any_of(one for one in patterns if "/" not in one)
    by_path = _any_of(one.removeprefix("./").strip("/") for one in patterns if "/" in one)

    def is_excluded(below: str) -> bool:
        name = os.path.basename(below)
        return bool(by_name.match(name) or by_path.match(below.replace(os.sep, "/")))

    return is_excluded


def _is_pattern(given: object) -> bool:
    return isinstance(given, str) and given != ""


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    # Without any, what nothing matches.
    return re.compile("|".join(translate(pattern) for pattern in patterns) or r"(?!)")


def _list_directory(directory: str) -> list[tuple[str, _Kind]]:
    """Return the entries of a directory, or where it is barred itself, as what cannot be read."""
    try:
        with os.scandir(directory) as entries:
            return sorted((entry.path, _kind(entry)) for entry in entries)
    except OSError:
        return [(directory, "file")]


def _kind(entry: os.DirEntry[str]) -> _Kind:
    try:
        if not entry.is_dir():
            return "file"
    except OSError:
        # A link to itself, for example: not to be walked into.
        return "file"
    return "link" if entry.is_symlink() else "directory"


def _identity(directory: str) -> tuple[int, int]:
    try:
        facts = os.stat(directory)
    except OSError:
        facts = os.lstat(directory)
    return facts.st_dev, facts.st_ino


def _found_file(root: str, path: str) -> FoundFile:
    facts = _facts(path)
    below = _below(root, path).split(os.sep)
    is_directory = facts is not None and stat.S_ISDIR(facts.st_mode)
    return FoundFile(
        path=_text(path),
        size=0 if facts is None else facts.st_size,
        modified=0 if facts is None else modified_micros(facts),
        tenant=_text(below[0]) if len(below) > 1 or is_directory else "",
        directory=_text(os.path.dirname(path)),
    )


def _below(root: str, path: str) -> str:
    return path[len(root.rstrip(os.sep)) + 1 :]


def _facts(path: str) -> os.stat_result | None:
    """Return the facts of a file, or of a link that leads nowhere; None where it is gone."""
    for look in (os.stat, os.lstat):
        with suppress(OSError):
            return look(path)
    return None


def _text(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
