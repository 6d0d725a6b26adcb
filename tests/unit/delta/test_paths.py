"""Which tables are plainly on this machine's disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_queue.log import addresses
from spark_queue.log.addresses import TableAddress


class _Session:
    """A session that finds some files under whatever path it is asked for."""

    def __init__(self, *found: str) -> None:
        self.found = found
        self.asked = 0

    @property
    def read(self) -> _Session:
        return self

    def schema(self, _: str) -> _Session:
        return self

    def text(self, _: str) -> _Session:
        self.asked += 1
        return self

    def inputFiles(self) -> list[str]:  # noqa: N802 - as Spark has it
        return list(self.found)


def _directory(session: Any, place: str) -> Path | None:
    return addresses.directory_of(session, TableAddress.of(place))


@pytest.mark.parametrize(
    "place",
    [
        "name",
        "file://host/q",
        "file:/a/../q",
        "file:/a%20b",
        "file:/a:b",
        "s3a://bucket/q",
        "dbfs:/q",
    ],
)
def test_what_may_be_elsewhere_has_no_directory(place: str) -> None:
    """A name, a host, another scheme, or a path that can be read in two ways, are Spark's."""
    assert _directory(_Session("file:/tmp/found"), place) is None


def test_a_path_is_what_the_session_takes_it_for() -> None:
    """Without a scheme a path is local if the session finds a local file; it is asked once."""
    here, nowhere, elsewhere = _Session("file:/tmp/f"), _Session(), _Session("hdfs://host/tmp/f")
    for session, directory in ((here, Path("/q")), (nowhere, None), (elsewhere, None)):
        assert [_directory(session, "/q"), _directory(session, "/q")] == [directory] * 2
        assert _directory(session, "file:/q") == Path("/q")
        assert session.asked == 1
