"""Empty logs of each kind."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from obstore.store import LocalStore

from tests.logs.logs import TestedLog, local_log, memory_log, object_log
from tests.logs.stores import ShakyStore


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
    here: dict[str, Callable[[], TestedLog]] = {
        "memory": memory_log,
        "local": lambda: local_log(place),
        "object": object_log,
        "object-on-disk": lambda: object_log(LocalStore(place)),
        "shaky": lambda: object_log(ShakyStore(lost=0.2, refused=0.2)),
    }
    if kind in here:
        return here[kind](), lambda: None
    spark, directory = request.getfixturevalue("spark"), Path(place, "q", "status")
    if kind == "spark":
        return TestedLog(spark, f"{place}/q", directory, by_spark=True), lambda: None
    # A store that is this disk under a name by which nobody knows that.
    name = f"far{uuid.uuid4().hex}"
    mount = f"fs.viewfs.mounttable.{name}.link./data"
    spark.conf.set(mount, f"file:{place}")
    made = TestedLog(spark, f"viewfs://{name}/data/q", directory, by_spark=True)
    return made, lambda: spark.conf.unset(mount)
