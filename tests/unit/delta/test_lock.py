from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from spark_queue.delta.tables.lock import holder, is_held, local_directory, lock_for_writing, unlock


@pytest.mark.parametrize("name", ["plain", "a b", "a%20b", "a#b", "a?b", "a:b", "ä"])
@pytest.mark.parametrize("scheme", ["file:", "file://"])
def test_a_directory_on_this_disk_is_found(tmp_path: Path, name: str, scheme: str) -> None:
    """No character of a path hides that it is local: there only one process may write."""
    directory = tmp_path / name
    directory.mkdir()

    assert local_directory(f"{scheme}{directory}") == directory


@pytest.mark.parametrize(
    "location",
    ["hdfs://host:9000/tmp", "s3a://bucket/tmp", "file:/no/such/directory", "/somewhere", ""],
)
def test_what_is_elsewhere_is_not_local(location: str) -> None:
    """A shared store has no directory here, nor has a table that is gone."""
    assert local_directory(location) is None


def test_a_lock_on_a_directory_that_is_gone_is_not_held(tmp_path: Path) -> None:
    """Whoever removes a queue and makes one in its place has not locked the new one yet."""
    directory = tmp_path / "status"
    directory.mkdir()
    lock_for_writing("q", directory)
    assert is_held(directory)

    shutil.rmtree(directory)
    directory.mkdir()
    assert not is_held(directory)
    lock_for_writing("q", directory)
    assert holder(directory) == os.getpid()
    assert unlock(directory)
