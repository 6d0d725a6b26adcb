"""The commits of a table, one after another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from spark_queue import LocalQueue
from spark_queue.errors import FileDamagedError
from spark_queue.log import maintenance
from spark_queue.log.delta.commits import Commit, commit_at, newest_version
from spark_queue.log.delta.log import APP_ID


@pytest.fixture
def queue(tmp_path: Path) -> LocalQueue:
    """Return an empty queue."""
    return LocalQueue.create(tmp_path / "queue", "n int", durability="process")


@pytest.fixture
def items(queue: LocalQueue) -> Path:
    """Return the directory of its item log, which has one step in version 1."""
    queue.enqueue({"n": 1})
    return Path(queue.name, "queue")


def named(directory: Path, version: int) -> Path:
    """Return the file of a commit."""
    return directory / "_delta_log" / f"{version:020}.json"


def made(directory: Path, version: int, *actions: dict[str, Any]) -> Commit:
    """Make a commit of some actions, and read it."""
    named(directory, version).write_text("".join(json.dumps(act) + "\n" for act in actions))
    return commit_at(directory, version, APP_ID)


def test_the_newest_version_is_found_from_a_known_one(items: Path, queue: LocalQueue) -> None:
    """However many commits came since, and where nothing was known."""
    for n in range(3):
        queue.enqueue({"n": n})

    assert [newest_version(items, known) for known in (None, 0, 2, 4)] == [4, 4, 4, 4]


def test_where_no_table_is_there_is_no_version(tmp_path: Path) -> None:
    """Neither in an empty directory nor in none."""
    assert newest_version(tmp_path, None) is None
    assert newest_version(tmp_path / "nothing", 3) is None


def test_a_step_is_told_by_its_transaction(items: Path) -> None:
    """A commit of a step names it, its files and their rows, and changes nothing else."""
    first = commit_at(items, 1, APP_ID)

    assert (first.step, first.is_step(), first.is_quiet(), first.redefines) == (
        1,
        True,
        False,
        False,
    )
    assert sorted(file.gen for file in first.files) == [-1, 0]
    assert [file.may_have("_seq", 1, 1) for file in first.files if file.gen == 0] == [True]
    assert [file.may_have("_seq", 2) for file in first.files if file.gen == 0] == [False]


def test_the_making_of_a_table_redefines_it(items: Path) -> None:
    """Whoever knows its columns from before looks at them again."""
    assert commit_at(items, 0, APP_ID).redefines


def test_rows_that_are_taken_away_end_what_is_known(items: Path) -> None:
    """A commit that removes rows is no step, also where it says that it is one."""
    gone = {"remove": {"path": "_gen=0/a.parquet", "dataChange": True}}
    step = {"txn": {"appId": APP_ID, "version": 2}}

    commit = made(items, 2, step, gone)

    assert (commit.takes_away, commit.is_step(), commit.is_quiet()) == (True, False, False)


def test_merged_files_are_no_new_rows(items: Path, queue: LocalQueue) -> None:
    """What was compacted is read in other files, and nothing has happened."""
    queue.enqueue({"n": 2})
    DeltaTable(str(items)).optimize.compact()

    merged = commit_at(items, 3, APP_ID)

    assert (merged.is_quiet(), merged.is_step(), list(merged.files)) == (True, False, [])
    assert len(merged.merged) == 2
    assert len(merged.gone) == 4


@pytest.mark.parametrize("text", ["", '{"commitInfo": {}}\n{"txn": {"app', "[]\n"])
def test_a_commit_that_is_cut_is_no_commit(items: Path, text: str) -> None:
    """It is refused, whatever is left of it."""
    named(items, 2).write_text(text)

    with pytest.raises(FileDamagedError, match=named(items, 2).name):
        commit_at(items, 2, APP_ID)


def test_many_files_are_merged_beside_a_checkpoint(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue of many steps stays one of few files, and goes on from them."""
    monkeypatch.setattr(maintenance, "MANY", 50)
    for n in range(120):
        queue.enqueue({"n": n})
    assert maintenance.wait(30)

    table = DeltaTable(str(Path(queue.name, "queue")))

    assert len(table.file_uris()) < 50
    assert queue.claim(200).table["n"].to_pylist() == list(range(120))
