"""Whose the newest commit of a table is, as a session of Spark asks it after a commit."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_queue.log.spark.spark_log import SparkLog


def _commit(log: Path, name: str, *actions: object) -> None:
    log.mkdir(exist_ok=True)
    (log / name).write_text("".join(f"{json.dumps(a, separators=(',', ':'))}\n" for a in actions))


def _newest_token(directory: Path) -> str | None:
    log: Any = SimpleNamespace(find_directory=lambda: directory)
    return SparkLog._newest_token(log)


def test_the_newest_commit_tells_whose_it_is(tmp_path: Path) -> None:
    """The last version counts, whatever else lies beside it."""
    log = tmp_path / "_delta_log"
    add = {"path": "a.parquet", "size": 1, "partitionValues": {}, "dataChange": True}
    _commit(log, f"{9:020}.json", {"commitInfo": {"userMetadata": "nine"}})
    _commit(log, f"{10:020}.json", {"add": add}, {"commitInfo": {"userMetadata": "ten"}})
    _commit(log, f".{11:020}.json.tmp", {"commitInfo": {"userMetadata": "unfinished"}})
    _commit(log, f"{10:020}.checkpoint.parquet")
    _commit(log, "_last_checkpoint", {"version": 10})

    assert _newest_token(tmp_path) == "ten"


@pytest.mark.parametrize(
    "text",
    ['{"commitInfo":{"operation":"OPTIMIZE"}}', '{"add":{}}', '{"commitInfo":{"userMe', ""],
)
def test_a_commit_without_a_token_is_nobodys(tmp_path: Path, text: str) -> None:
    """A commit of another program, or a torn one, is not believed to be a step of ours."""
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{1:020}.json").write_text(text)

    assert _newest_token(tmp_path) is None


def test_a_place_without_a_log_is_nobodys(tmp_path: Path) -> None:
    """Where there is no table there is no token, and that is no error."""
    assert _newest_token(tmp_path) is None
