"""Empty logs of each kind."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.logs.logs import TestedLog, local_log, memory_log


@pytest.fixture
def log(request: pytest.FixtureRequest, place: str) -> Iterator[TestedLog]:
    """Return an empty log of a kind."""
    made, undo = log_of(request.param, request, place)
    made.create()
    yield made
    undo()


def log_of(
    kind: str, request: pytest.FixtureRequest, place: str
) -> tuple[TestedLog, Callable[[], None]]:
    """Return a log of a kind, and what takes back what a session knows of it."""
    if kind == "memory":
        return memory_log(), lambda: None
    if kind == "local":
        return local_log(place), lambda: None
    spark, directory = request.getfixturevalue("spark"), Path(place, "q", "status")
    if kind == "spark":
        return TestedLog(spark, f"{place}/q", directory, by_spark=True), lambda: None
    # A store that is this disk under a name by which nobody knows that.
    name = f"far{uuid.uuid4().hex}"
    mount = f"fs.viewfs.mounttable.{name}.link./data"
    spark.conf.set(mount, f"file:{place}")
    made = TestedLog(spark, f"viewfs://{name}/data/q", directory, by_spark=True)
    return made, lambda: spark.conf.unset(mount)
