"""Traces of steps in a local table's log, checksums of its commits, and read errors of files.

A reader of the table sees only what is there. That something was there is told by what is left: a
checksum of a commit that is gone, or the transaction of a step whose rows are gone.

A directory is not listed at one moment: of two commits that are made while it is, the second may
be in the list and the first not. Delta takes that for a table that has lost a commit. Another look
has both.
"""

from __future__ import annotations

import errno
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from spark_queue.errors import FileAccessError, FileDamagedError, FileGoneError, SparkQueueError
from spark_queue.log.delta import version_note

_SIGN = "DELTA_VERSIONS_NOT_CONTIGUOUS"

#: How often a table is looked at.
_TRIES = 3

_T = TypeVar("_T")


def is_torn(exc: Exception) -> bool:
    """Tell whether a query failed because a commit was not listed that a later one follows."""
    return _SIGN in str(exc)


def looked(query: Callable[[], _T], tries: int = _TRIES) -> _T:
    """Return a query's answer; one that saw a torn list is repeated."""
    try:
        return query()
    except Exception as exc:
        if tries == 1 or not is_torn(exc):
            raise
    return looked(query, tries - 1)


#: The first line of a commit that has a checksum: of all its text, with zeros in its place.
_SEALED = re.compile(r'\{"commitInfo":\{"checksum":"([0-9a-f]{8})"')

_ZEROS = "00000000"


def seal(actions: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a commit, with a checksum where it says of itself what it is."""
    first, *others = actions
    if "commitInfo" in first:
        first = {"commitInfo": {"checksum": _ZEROS, **first["commitInfo"]}}
    lines = (json.dumps(action, separators=(",", ":")) + "\n" for action in (first, *others))
    text = "".join(lines)
    return text if "commitInfo" not in first else text.replace(_ZEROS, _checksum(text), 1)


def require_seal(text: str) -> None:
    """Check the text of a commit by its checksum, if it has one.

    Raises
    ------
    ValueError
        When it is not what was written.
    """
    found = _SEALED.match(text)
    if found is None:
        return
    bare = text[: found.start(1)] + _ZEROS + text[found.end(1) :]
    if _checksum(bare) != found[1]:
        raise ValueError("its checksum is that of another text")


def require_whole(text: str) -> None:
    """Check that the text of a commit ends as one does; errors as for :func:`require_seal`."""
    # Other writers end a commit without a line feed.
    json.loads(text.rstrip("\n").rpartition("\n")[2])
    require_seal(text)


def read_actions(text: str) -> list[Any]:
    """Return the actions of a commit from its text.

    Only a line feed ends a line: Spark and deltalake write U+2028 and the like as they are.
    """
    return [json.loads(line) for line in text.split("\n") if line]


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


#: What the system says of a file that is not what it was.
_DAMAGE = (errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EINVAL)

#: What a reader of bytes raises that are not those that were written.
_NOT_WHOLE = (ValueError, LookupError, TypeError, AttributeError, MemoryError, pa.ArrowException)

#: Letters of an error that are worth a look.
_LONGEST = 300


@contextmanager
def naming(file: Path | str) -> Iterator[None]:
    """Name a file in the errors that a read of it raises.

    Raises
    ------
    FileGoneError
        When it is not there.
    FileDamagedError
        When it is not what was written.
    FileAccessError
        When the system does not let this process read it.
    """
    try:
        yield
    except SparkQueueError:
        raise
    except (OSError, *_NOT_WHOLE) as exc:
        raise error_of(file, exc) from exc


def error_of(file: Path | str, exc: BaseException) -> SparkQueueError:
    """Return what to raise where a read of a file has raised something."""
    number = exc.errno if isinstance(exc, OSError) else None
    if number == errno.ENOENT:
        return FileGoneError(file)
    if number is not None and number not in _DAMAGE:
        return FileAccessError(file, number)
    if Path(file).is_dir():
        return FileDamagedError(file, "is a directory")
    return FileDamagedError(file, f"is not what was written there ({_message(exc)})")


def _message(exc: BaseException) -> str:
    said = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
    return " ".join(said.split())[:_LONGEST]


#: Names of a version: its commit, its checksums, its checkpoints; no file that is being written.
_VERSION = re.compile(r"\.?(?P<version>\d{20})\.(json|json\.crc|crc|checkpoint\.(?!.*tmp).*)")

#: The names of commits.
COMMIT = re.compile(r"\d{20}\.json")

_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.(?!.*tmp).*")

#: A file of a log that is not looked for.
_ANOTHER = "another file"

#: What Delta calls a commit by which a table is as it was before.
_RESTORE = "RESTORE"


@dataclass(frozen=True, slots=True)
class Trace:
    """What the files of a table's log say of its steps."""

    step: int | None
    """The newest step that was committed; ``None`` where the commits at hand do not say."""
    was_restored: bool = False
    """Whether the table was set back to an older version after that."""
    missing: str = ""
    """A commit that is gone, though another file names it."""
    named_by: str = _ANOTHER
    """That file."""
    cut: str = ""
    """The newest commit, where it is not whole: one that a power cut has left behind."""
    empty: str = ""
    """A commit that is empty, though later ones are there."""


def trace(directory: Path, app_id: str) -> Trace:
    """Return the traces in a table's log; none if there is no log.

    Raises
    ------
    FileDamagedError
        When a commit is not what was written.
    FileAccessError
        When the system refuses a file.
    """
    log = directory / "_delta_log"
    try:
        with naming(log):
            names = os.listdir(log)  # noqa: PTH208 - thousands of names, of which few are wanted
        cut = _cut(log, names)
        if cut:
            return Trace(None, cut=cut)
        missing, named_by = _missing(log, names, version_note.read(directory)[0])
        missing = missing or _gap(log, names)
        empty = _empty(log, names)
        step, was_restored = _newest_step(log, names, app_id)
    except (FileNotFoundError, NotADirectoryError):
        return Trace(None)
    return Trace(step, was_restored, missing, named_by, empty=empty)


def cut_at(directory: Path, version: int) -> Trace:
    """Look at one commit alone, which is the newest."""
    name = f"{version:020}.json"
    try:
        commit = f"{directory}/_delta_log/{name}"
        is_known = _whole.get(str(directory)) == _facts(commit)
        return Trace(None, cut=name if not is_known and _is_cut(Path(commit)) else "")
    except FileNotFoundError:
        return Trace(None)


#: Commits that this process has written, by their tables: the newest of each, untouched since.
_whole: dict[str, tuple[object, ...]] = {}


def _facts(commit: str) -> tuple[object, ...]:
    """Return what tells whether a commit was touched; errors as :func:`naming` says."""
    with naming(commit):
        seen = os.stat(commit)  # noqa: PTH116 - asked for each step
    return commit, seen.st_ino, seen.st_size, seen.st_mtime_ns


def note(directory: Path, version: int, *, is_forced: bool) -> None:
    """Write down the newest version of a table, for commits that leave no checksum.

    Parameters
    ----------
    directory : Path
        Where the table is.
    version : int
        The version, which this process has written.
    is_forced : bool
        Whether it is on the disk, with all before it.
    """
    with suppress(SparkQueueError):
        _whole[str(directory)] = _facts(f"{directory}/_delta_log/{version:020}.json")
    version_note.write(directory, version, is_forced=is_forced)


def birth(directory: Path | None) -> tuple[int, int] | None:
    """Return what tells a table from another that is made in its place; ``None`` if unknown."""
    if directory is None:
        return None
    try:
        first = os.stat(_first_commit(directory))  # noqa: PTH116 - asked dozens of times a step
    except OSError:
        return None
    return first.st_ino, first.st_mtime_ns


def first_id(directory: Path) -> str | None:
    """Return the id that a table got with its first commit; ``None`` where that is gone."""
    made = [action["metaData"] for action in first_actions(directory) or () if "metaData" in action]
    return str(made[0]["id"]) if made else None


def first_actions(directory: Path) -> list[dict[str, Any]] | None:
    """Return what the first commit did; ``None`` where it is not whole."""
    try:
        actions = read_actions(Path(_first_commit(directory)).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_whole = any(isinstance(action, dict) and "metaData" in action for action in actions)
    return actions if is_whole and all(isinstance(one, dict) for one in actions) else None


@lru_cache(maxsize=1_024)
def _first_commit(directory: Path) -> str:
    return str(directory / "_delta_log" / f"{0:020}.json")


def _cut(log: Path, names: list[str]) -> str:
    """Return the newest commit if it has no line, or if its last one is not whole."""
    newest = max(filter(COMMIT.fullmatch, names), default="")
    return newest if newest and _is_cut(log / newest) else ""


def _is_cut(commit: Path) -> bool:
    with naming(commit):
        lines = commit.read_bytes().splitlines()
    try:
        last = json.loads(lines[-1])
    except (IndexError, ValueError):
        return True
    return not isinstance(last, dict)


def _since_checkpoint(names: list[str]) -> list[int]:
    """Return the versions that no checkpoint has summed up, from the first that is wanted on."""
    summed = max((int(name[:20]) for name in names if _CHECKPOINT.fullmatch(name)), default=-1)
    versions = (int(name[:20]) for name in names if COMMIT.fullmatch(name))
    return [summed, *sorted(version for version in versions if version > summed)]


def _gap(log: Path, names: list[str]) -> str:
    """Return a commit that is gone, though later ones are there."""
    found = _first_gap(names)
    # Names that are read while others make and remove files may be of no one time.
    if not found or (log / found).exists():
        return ""
    return found if _first_gap(os.listdir(log)) == found else ""  # noqa: PTH208 - as above


def _first_gap(names: list[str]) -> str:
    summed, *versions = _since_checkpoint(names)
    gaps = (at for at, version in enumerate(versions, summed + 1) if at != version)
    return next((f"{at:020}.json" for at in gaps), "")


def _empty(log: Path, names: list[str]) -> str:
    """Return a commit without a content, as several are after a power cut that nothing forced."""
    commits = (f"{version:020}.json" for version in _since_checkpoint(names)[1:])
    return next((name for name in commits if not os.stat(log / name).st_size), "")  # noqa: PTH116


def _missing(log: Path, names: list[str], noted: str) -> tuple[str, str]:
    """Return a commit that is gone, and the file that names it."""
    found = [(match["version"], name) for name in names if (match := _VERSION.fullmatch(name))]
    version, named_by = max([*found, (noted, version_note.FILE)])
    newest = f"{version}.json"
    # Another commit may have made it since the names were read.
    is_gone = bool(version) and newest not in names and not (log / newest).exists()
    return (newest, named_by) if is_gone else ("", _ANOTHER)


def _newest_step(log: Path, names: list[str], app_id: str) -> tuple[int | None, bool]:
    """Return the newest step, and whether the table was restored after it."""
    was_restored = False
    for name in sorted(filter(COMMIT.fullmatch, names), reverse=True):
        with naming(log / name):
            for action in _actions(log / name):
                transaction = action.get("txn", {})
                if transaction.get("appId") == app_id:
                    return int(transaction["version"]), was_restored
                was_restored |= action.get("commitInfo", {}).get("operation") == _RESTORE
    return None, was_restored


def _actions(commit: Path) -> Iterator[dict[str, Any]]:
    """Return what a commit says of itself; not the files that it adds, which may be thousands."""
    text = commit.read_text(encoding="utf-8")
    require_seal(text)
    for line in text.split("\n"):
        if line.startswith(('{"commitInfo"', '{"txn"')):
            yield json.loads(line)
