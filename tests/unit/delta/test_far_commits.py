"""The commits of a table on a shared store, looked at one by one through a session."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from spark_queue.log.delta.log import APP_ID
from spark_queue.log.object import remote_commits
from spark_queue.log.object.remote_commits import FarCommits


@dataclass
class _Store:
    """A session that reads commits, and notes which."""

    texts: dict[int, str] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    histories: int = 0
    error: Exception | None = None

    @property
    def read(self) -> Any:
        """Stand for a reader of any schema."""
        return SimpleNamespace(schema=lambda _: self)

    def text(self, path: str, *, wholetext: bool) -> Any:
        """Return the whole file, or say as Spark does that it is not there."""
        assert wholetext
        version = int(path.rpartition("/")[2].removesuffix(".json"))
        self.asked.append(version)
        if self.error is not None:
            raise self.error
        if version not in self.texts:
            raise FileNotFoundError(f"[PATH_NOT_FOUND] {path}")
        return SimpleNamespace(head=lambda: (self.texts[version],), schema="")

    def sql(self, query: str) -> Any:
        """Return the newest version that the history has."""
        assert query.startswith("DESCRIBE HISTORY")
        self.histories += 1
        newest = (max(self.texts),)
        return SimpleNamespace(select=lambda _: SimpleNamespace(head=lambda: newest))

    def commit(self, version: int, token: str) -> None:
        """Let somebody commit a step."""
        actions = [
            {"commitInfo": {"userMetadata": token}},
            {"txn": {"appId": APP_ID, "version": version}},
        ]
        self.texts[version] = "\n".join(map(json.dumps, actions))


@pytest.fixture
def store() -> _Store:
    """Return a table with two commits."""
    made = _Store()
    made.commit(0, "made")
    made.commit(1, "first")
    return made


@pytest.fixture
def commits(store: _Store) -> FarCommits:
    """Return its commits, of which the newest is known."""
    found = FarCommits(cast("SparkSession", store), "delta.`q`", "far://q")
    assert found.newest(None) == 1
    store.asked.clear()
    return found


def test_the_next_commit_is_looked_for_by_its_name(store: _Store, commits: FarCommits) -> None:
    """Where nobody has committed, one name is asked for; else each until one is not there."""
    assert (commits.newest(1), store.asked) == (1, [2])
    store.commit(2, "a")
    store.commit(3, "b")
    assert commits.newest(1) == 3
    assert [commits.at(version, APP_ID).token for version in (2, 3)] == ["a", "b"]
    assert (store.asked, store.histories) == ([2, 2, 3, 4], 1)


def test_a_step_is_known_by_its_token(store: _Store, commits: FarCommits) -> None:
    """The version of a step of ours is told, behind others too; of another's it is not."""
    store.commit(2, "theirs")
    store.commit(3, "ours")
    assert commits.version_of("ours", 1) == 3
    assert commits.version_of("somebody's", 1) is None
    assert commits.version_of("ours", None) is None


def test_a_store_that_fails_after_a_commit_takes_nothing_back(
    store: _Store, commits: FarCommits
) -> None:
    """Whether a step is ours is left open then, not answered by an error; a look before tells."""
    store.error = OSError("the store is gone")
    assert commits.version_of("ours", 1) is None
    with pytest.raises(OSError, match="the store is gone"):
        commits.newest(1)


def test_a_log_that_was_cleaned_up_is_asked_for_its_newest(
    store: _Store, commits: FarCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower whose commit is gone does not take itself for current."""
    monkeypatch.setattr(remote_commits, "_KEPT", 0.0)
    del store.texts[1]
    store.commit(9, "later")
    assert (commits.newest(1), store.histories) == (9, 2)


def test_far_behind_the_history_is_asked(store: _Store, commits: FarCommits) -> None:
    """Many commits are not looked for one by one."""
    for version in range(2, 60):
        store.commit(version, "more")
    assert (commits.newest(1), store.histories) == (59, 2)


def test_files_that_are_not_ours_to_read_are_left_alone(store: _Store) -> None:
    """A store that refuses once is not asked again."""
    store.error = PermissionError("not yours")
    commits = FarCommits(cast("SparkSession", store), "delta.`q`", "far://q")
    assert [commits.newest(None), commits.newest(None)] == [None, None]
    assert (len(store.asked), store.histories) == (1, 1)
