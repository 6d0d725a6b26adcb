from __future__ import annotations

from pathlib import Path

import pytest

from spark_queue.log.addresses import local_directory


@pytest.mark.parametrize("name", ["plain", "a b", "a%20b", "a#b", "a?b", "a:b", "ä"])
@pytest.mark.parametrize("scheme", ["file:", "file://"])
def test_a_directory_on_this_disk_is_found(tmp_path: Path, name: str, scheme: str) -> None:
    """No character of a path hides that it is local: there its files say what is new."""
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
