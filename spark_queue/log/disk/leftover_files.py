"""Files in a table's directories that no commit names: left by who was killed, or read no more.

A writer has the right to write from its first file to its commit; a merger has the right to tidy
up. So a file that is in no commit while both are held is nobody's. How old a file is
only has to tell what other programs may be writing.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow.parquet as pq

from spark_queue.errors import InvalidArgumentError
from spark_queue.log.delta.commits import OURS, commit_path, newest_version, summed_up
from spark_queue.log.delta.integrity import COMMIT, read_actions
from spark_queue.log.disk import write_lock

#: Seconds for which a file may stay in no commit: one that is written here, which takes
#: milliseconds; and one of others.
_OUR_TIME, _THEIR_TIME = 600.0, 86_400.0

#: Seconds for which a file is kept that was replaced, as Delta's own default has it: one that is
#: younger and in no commit was never read.
_KEPT = 7 * 86_400.0

_OUR_DRAFT = re.compile(r"\.[0-9a-f]{32}\.tmp")
_DRAFT = re.compile(r"\..*\.tmp|_commit_.+\.tmp|.+#\d+")
_SHADOW = re.compile(r"\.(\d{20}\..+)\.crc")
_CHECKPOINT = "{:020}.checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """Ages in seconds from which on a file is a leftover."""

    ours: float = _OUR_TIME
    others: float = _THEIR_TIME
    most: float = _KEPT
    """One that is older may have been read once; by default it stays."""
    replaced: bool = False
    """Whether what the log names and reads no more goes, too, however young."""


def sweep(directory: Path, ages: Ages | None = None) -> int:
    """Remove leftovers of a table, and return how many; under the maintenance lock.

    Parameters
    ----------
    directory : Path
        Where the table is.
    ages : Ages, optional
        How old it has to be.
    """
    # The files are there before the lock is taken: their writers are done by then.
    ages = ages or Ages()
    found = [*_leftovers(directory, ages), *_drafts(directory, ages), *_shadows(directory)]
    if not found and not ages.replaced:
        return 0
    with write_lock.holding(str(directory), directory):
        named = named_files(directory)
        replaced = replaced_files(directory) if ages.replaced else None
        gone = {path for path in replaced or () if (directory / path).exists()}
        left = set(found) | gone
        return 0 if named is None else sum(_remove(directory, path, named - gone) for path in left)


def require_unshared(directory: Path) -> None:
    """Raise where a clone has files of a table, too: they are links to the same content.

    Raises
    ------
    InvalidArgumentError
        It names one of them.
    """
    for path in directory.rglob("*.parquet"):
        if "_delta_log" not in path.parts and path.stat().st_nlink > 1:
            raise InvalidArgumentError(
                f"now is True, and a clone has the file {str(path)!r}, too: drop that queue, or "
                "purge without now"
            )


def _leftovers(directory: Path, ages: Ages) -> Iterator[str]:
    """Return the data files that are old enough to be leftovers."""
    for folder in directory.glob("_gen=*"):
        for entry in os.scandir(folder):
            least = ages.ours if entry.name.startswith(OURS) else ages.others
            if entry.name.endswith(".parquet") and least <= _age(entry) < ages.most:
                yield f"{folder.name}/{entry.name}"


def _drafts(directory: Path, ages: Ages) -> Iterator[str]:
    """Return commits and checkpoints that were never finished."""
    for entry in os.scandir(directory / "_delta_log"):
        if _DRAFT.fullmatch(entry.name):
            least = ages.ours if _OUR_DRAFT.fullmatch(entry.name) else ages.others
            if _age(entry) >= least:
                yield f"_delta_log/{entry.name}"


def _shadows(directory: Path) -> Iterator[str]:
    """Return the checksums of Spark's file system for commits that were cleaned up without it."""
    names = set(os.listdir(directory / "_delta_log"))  # noqa: PTH208 - only names are wanted
    oldest = min((name for name in names if COMMIT.fullmatch(name)), default="")
    for name in names:
        whose = _SHADOW.fullmatch(name)
        # What is younger may be written at this moment, its checksum first.
        if whose is not None and whose[1] not in names and whose[1] < oldest:
            yield f"_delta_log/{name}"


def _age(entry: os.DirEntry[str]) -> float:
    try:
        return time.time() - entry.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _remove(directory: Path, path: str, named: set[str]) -> bool:
    if path in named:
        return False
    (directory / path).unlink(missing_ok=True)
    return True


def named_files(directory: Path) -> set[str] | None:
    """Return all files that the log names, replaced ones included.

    ``None`` where only those who know all of the protocol can tell.
    """
    found = _mentions(directory)
    return None if found is None else {one.path for one in found}


def replaced_files(directory: Path) -> set[str] | None:
    """Return the files that the log names and reads no more; ``None`` as above."""
    found = _mentions(directory)
    if found is None:
        return None
    # What is said last of a file holds.
    is_read = {one.path: one.replaced is None for one in found}
    return {path for path, is_there in is_read.items() if not is_there}


def names_old(directory: Path) -> bool:
    """Tell whether a checkpoint would forget a file: it was replaced longer ago than they are kept.

    Where the newest commit has its checkpoint already, the next one waits for another commit.
    """
    if newest_version(directory, None) == summed_up(directory):
        return False
    before = (time.time() - _KEPT) * 1000
    found = _mentions(directory) or ()
    return any(one.replaced < before for one in found if one.replaced is not None)


class _Mention(NamedTuple):
    """A file that an entry of the log names."""

    path: str
    replaced: float | None
    """The time of its removal in milliseconds; ``None`` for a file that is added."""


def _mentions(directory: Path) -> list[_Mention] | None:
    """Return the files that the log names, in its order; ``None`` as above."""
    made, newest = summed_up(directory), newest_version(directory, None)
    if newest is None:
        return None
    try:
        found = [] if made is None else _of_checkpoint(directory, made)
        if found is None:
            return None
        for version in range(0 if made is None else made + 1, newest + 1):
            text = commit_path(directory, version).read_text(encoding="utf-8")
            found += [one for action in read_actions(text) for one in _of_action(action)]
    except (OSError, ValueError, LookupError):
        return None
    return found


def _of_checkpoint(directory: Path, version: int) -> list[_Mention] | None:
    parts = list((directory / "_delta_log").glob(f"{_CHECKPOINT.format(version)}*.parquet"))
    columns = ["add.path", "remove.path", "remove.deletionTimestamp", "sidecar.path"]
    rows = [row for part in parts for row in pq.ParquetFile(part).read(columns).to_pylist()]
    # Of one with sidecars all is in other files.
    if not parts or any(_has(row, "sidecar") for row in rows):
        return None
    return [one for row in rows for one in _of_action(row)]


def _of_action(action: dict[str, Any]) -> Iterator[_Mention]:
    if _has(action, "remove"):
        gone = action["remove"]
        yield _Mention(unquote(gone["path"]), gone.get("deletionTimestamp") or 0)
    if _has(action, "add"):
        yield _Mention(unquote(action["add"]["path"]), None)


def _has(action: dict[str, Any], kind: str) -> bool:
    said = action.get(kind)
    return said is not None and said.get("path") is not None
