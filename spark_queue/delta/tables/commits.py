"""The commits of a table, one after another: what each did to its rows.

A follower of a table needs its newer commits only, which are small files of one name after the
other. What that costs does not grow with the log, as it does where a table is opened again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

from spark_queue.delta.tables.damage import naming
from spark_queue.delta.tables.files import LogFile, files_in
from spark_queue.delta.tables.seals import read_actions, require_seal
from spark_queue.errors import FileDamagedError

_COMMIT = re.compile(r"\d{20}\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What one version of a table did."""

    step: int | None
    """The number of the step that it is; ``None`` where it is none."""
    token: str | None
    """What its writer has said of it: the token of the step's head."""
    files: Sequence[LogFile]
    """The files whose rows it added."""
    merged: Sequence[LogFile]
    """Files that have rows of others, which were merged."""
    gone: frozenset[str]
    """The paths of files that are no longer read."""
    takes_away: bool
    """Whether rows that were there are gone."""
    redefines: bool
    """Whether the table asks something else of those who read or write it."""

    def is_quiet(self) -> bool:
        """Tell whether the rows are what they were: files were merged, or properties set."""
        return not self.files and not self.takes_away

    def is_step(self) -> bool:
        """Tell whether it added the rows of a step, and did nothing else."""
        return self.step is not None and not self.takes_away


def newest_version(directory: Path, known: int | None) -> int | None:
    """Return the newest version of a table; ``None`` where there is none.

    Parameters
    ----------
    directory : Path
        Where the table is.
    known : int, optional
        A version that was the newest once: then its successors are looked for, by name. One whose
        commit was cleaned up says nothing of them.
    """
    log = _log(directory)
    if known is None or not _is_there(log, known):
        return _last(log)
    while _is_there(log, known + 1):
        known += 1
    return known


@lru_cache(maxsize=1_024)
def _log(directory: Path) -> str:
    return str(directory / "_delta_log")


def _is_there(log: str, version: int) -> bool:
    """Tell whether a commit is there; by its text, as this is asked dozens of times a step."""
    try:
        os.stat(f"{log}/{name_of(version)}")  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def commit_at(directory: Path, version: int, app_id: str) -> Commit:
    """Read a commit.

    Raises
    ------
    FileDamagedError
        When it is not there, or not whole.
    FileAccessError
        When the system refuses it.
    """
    path = commit_path(directory, version)
    with naming(path):
        return commit_of(path.read_text(encoding="utf-8"), app_id)


def commit_of(text: str, app_id: str) -> Commit:
    """Read a commit from its text.

    Raises
    ------
    ValueError
        When it is not whole.
    """
    require_seal(text)
    actions: list[dict[str, Any]] = read_actions(text)
    if not actions or not all(isinstance(action, dict) for action in actions):
        raise ValueError(f"a commit is no list of actions: {text[:100]!r}")
    steps = [act["txn"]["version"] for act in actions if act.get("txn", {}).get("appId") == app_id]
    adds = [act["add"] for act in actions if "add" in act]
    infos = [act["commitInfo"] for act in actions if "commitInfo" in act]
    return Commit(
        step=steps[0] if steps else None,
        token=infos[0].get("userMetadata") if infos else None,
        files=[file for add in adds if add.get("dataChange") for file in files_in(add)],
        merged=[file for add in adds if not add.get("dataChange") for file in files_in(add)],
        gone=frozenset(act["remove"]["path"] for act in actions if "remove" in act),
        takes_away=any(act.get("remove", {}).get("dataChange") for act in actions),
        redefines=any("metaData" in act or "protocol" in act for act in actions),
    )


def removals(directory: Path, app_id: str, most: int) -> list[datetime]:
    """Return when rows were taken away, as far as the newest commits say that are still there.

    Parameters
    ----------
    most : int
        How many commits are looked at.
    """
    newest, found = newest_version(directory, None), []
    for version in range(newest or 0, max(-1, (newest or 0) - most), -1):
        path = commit_path(directory, version)
        if not path.exists():
            break
        with naming(path):
            text = path.read_text(encoding="utf-8")
            if '"remove"' in text and commit_of(text, app_id).takes_away:
                lines = read_actions(text)
                at = next(line["commitInfo"]["timestamp"] for line in lines if "commitInfo" in line)
                found.append(datetime.fromtimestamp(at / 1000, timezone.utc))
    return found


def name_of(version: int) -> str:
    """Return the name of the file of a commit."""
    return f"{version:020}.json"


def summed_up(directory: Path) -> int | None:
    """Return the version of which a checkpoint of the log was written last, if one was."""
    try:
        text = (directory / "_delta_log" / "_last_checkpoint").read_text(encoding="utf-8")
        return int(json.loads(text)["version"])
    except (OSError, ValueError, LookupError):
        return None


def commit_path(directory: Path, version: int) -> Path:
    """Return the file that a version of a table is, or will be."""
    return directory / "_delta_log" / name_of(version)


def newest_token(directory: Path) -> str | None:
    """Return the ``userMetadata`` of the newest commit of a table on this machine's disk.

    One small file is read, of the format that Delta's protocol fixes: a line of JSON an action.
    """
    try:
        log = directory / "_delta_log"
        names = os.listdir(log)  # noqa: PTH208 - thousands of names, of which one is wanted
        name = max(name for name in names if name.endswith(".json"))
        lines = (log / name).read_text(encoding="utf-8").split("\n")
        infos = [json.loads(line) for line in lines if line.startswith('{"commitInfo"')]
    except (OSError, ValueError):
        return None
    return infos[0]["commitInfo"].get("userMetadata") if infos else None


def _last(log: str) -> int | None:
    try:
        with naming(log):
            names = os.listdir(log)  # noqa: PTH208 - thousands of names, of which one is wanted
    except FileDamagedError:
        return None
    newest = max(filter(_COMMIT.fullmatch, names), default=None)
    return None if newest is None else int(newest[:20])
