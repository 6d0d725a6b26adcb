"""Additions to a commit for the features of its table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from spark_queue.errors import FileDamagedError
from spark_queue.log.delta.commits import commit_path
from spark_queue.log.delta.integrity import naming, read_actions

IN_COMMIT_TIME, ROW_TRACKING = "inCommitTimestamp", "rowTracking"

#: Where row ids are counted, in the log, and by which word.
_DOMAIN, _LAST = "delta.rowTracking", "rowIdHighWaterMark"

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*(parquet|json)")

#: An action of a commit.
Action = dict[str, Any]


def complete(
    actions: Sequence[Action], directory: Path, version: int, features: frozenset[str]
) -> list[Action]:
    """Return the actions of a commit with all that features of its table ask.

    Parameters
    ----------
    actions : sequence of dict
        What the commit does, its information first.
    directory : Path
        The table, on this machine's disk.
    version : int
        The version that the commit makes.
    features : frozenset of str
        Those that are on.
    """
    done = [*actions]
    if IN_COMMIT_TIME in features:
        info = done[0]["commitInfo"]
        later = _read_time(directory, version - 1) + 1
        done[0] = {"commitInfo": {**info, IN_COMMIT_TIME: max(info["timestamp"], later)}}
    if ROW_TRACKING in features and any("add" in action for action in done):
        done = _number_rows(done, version, _find_last_id(directory, version - 1))
    return done


def _read_time(directory: Path, version: int) -> int:
    """Return when a commit says that it was made."""
    infos = (action.get("commitInfo", {}) for action in _actions(commit_path(directory, version)))
    return next((int(info[IN_COMMIT_TIME]) for info in infos if IN_COMMIT_TIME in info), 0)


def _number_rows(actions: Sequence[Action], version: int, last: int) -> list[Action]:
    """Give the files of a commit the next row ids, and say which is the last one."""
    done: list[Action] = []
    for action in actions:
        if (add := action.get("add")) is None:
            done.append(action)
            continue
        ids = {"baseRowId": last + 1, "defaultRowCommitVersion": version}
        done.append({"add": {**add, **ids}})
        last += json.loads(add["stats"])["numRecords"]
    said = json.dumps({_LAST: last}, separators=(",", ":"))
    domain = {"domain": _DOMAIN, "configuration": said, "removed": False}
    return [*done, {"domainMetadata": domain}]


def _find_last_id(directory: Path, version: int) -> int:
    """Return the last row id that a table has given; -1 for none."""
    for at in range(version, -1, -1):
        path = commit_path(directory, at)
        is_there = path.exists()
        parts = [_actions(path)] if is_there else []
        found = map(_last_id, [*parts, *_checkpoints(directory, at)])
        if (last := next((one for one in found if one is not None), None)) is not None:
            return last
        if not is_there:
            why = "is gone, and no checkpoint says which ids its rows have"
            raise FileDamagedError(path, why)
    return -1


def _last_id(actions: Sequence[Mapping[str, Any]]) -> int | None:
    domains = [action.get("domainMetadata") or {} for action in actions]
    said = next((one for one in domains if one.get("domain") == _DOMAIN), None)
    if said is None:
        return None
    # Ids begin again where the feature was dropped: its files lost theirs.
    return -1 if said.get("removed") else int(json.loads(said["configuration"])[_LAST])


def _checkpoints(directory: Path, version: int) -> Iterator[Sequence[Action]]:
    """Yield the domains in each file of the checkpoint of a version."""
    for path in (directory / "_delta_log").glob(f"{version:020}.checkpoint*"):
        if _CHECKPOINT.fullmatch(path.name) is None:
            continue
        if path.suffix == ".json":
            yield _actions(path)
            continue
        with naming(path):
            file = pq.ParquetFile(path)
            if "domainMetadata" in file.schema_arrow.names:
                yield file.read(["domainMetadata"]).to_pylist()


def _actions(path: Path) -> list[Action]:
    with naming(path):
        return read_actions(path.read_text(encoding="utf-8"))
