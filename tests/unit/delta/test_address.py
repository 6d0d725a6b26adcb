from __future__ import annotations

from pathlib import Path

import pytest

from spark_queue.errors import InvalidArgumentError
from spark_queue.log.addresses import QueueAddress, TableAddress


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("./files", "{here}/files"),
        ("mails/new", "{here}/mails/new"),
        ("../files/", "{above}/files"),
        ("/data/files", "/data/files"),
        ("s3a://bucket/files", "s3a://bucket/files"),
        ("dbfs:/files", "dbfs:/files"),
        ("file:/data/files", "file:/data/files"),
        ("lake.ops.files", "lake.ops.files"),
    ],
)
def test_a_relative_path_is_taken_from_the_working_directory(
    given: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue and a table have the same place for a process that works elsewhere."""
    monkeypatch.chdir(tmp_path)
    place = meant.format(here=tmp_path, above=tmp_path.parent)

    assert QueueAddress(given).name == place
    assert TableAddress.of(given) == TableAddress(place, is_path="/" in given)


@pytest.mark.parametrize("name", ["", None, 5, b"files", Path("/files"), ["files"]])
def test_what_is_no_name_is_named(name: object) -> None:
    """A queue and a table are named by text, and the error shows what was given instead."""
    for named in (QueueAddress, TableAddress.of):
        with pytest.raises(InvalidArgumentError, match="is named by a path or a table name") as no:
            named(name)  # type: ignore[arg-type]
        assert repr(name) in str(no.value)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("/x/out/", "/x/out"),
        ("/x//y/./out", "/x/y/out"),
        ("file:/x/out/", "file:/x/out"),
        ("file:///x/out", "file:/x/out"),
        ("/x/../out", "/x/../out"),
        ("//host/x/", "//host/x/"),
        ("file://host/x", "file://host/x"),
        ("s3a://bucket//x/", "s3a://bucket//x/"),
    ],
)
def test_a_place_on_a_disk_is_written_in_one_way(given: str, meant: str) -> None:
    """Its locks are found by its path: whoever writes it another way would hold others."""
    assert TableAddress.of(given).target == meant
    assert QueueAddress(given).name == meant
