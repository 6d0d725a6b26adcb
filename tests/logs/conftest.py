"""Empty logs of each kind."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from obstore.store import LocalStore

from spark_queue.log.object_tables import ObjectTables
from tests.logs.logs import (
    TestedLog,
    disk_log,
    file_system,
    file_system_log,
    local_log,
    memory_log,
    object_log,
    storage_log,
)
from tests.logs.s3_server import faulty_s3
from tests.logs.stand_ins import azure
from tests.logs.stores import ShakyStore

#: The part of the answers that are lost.
_LOST = 0.05


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
        "storage": storage_log,
        "disk": lambda: disk_log(place),
        "object-on-disk": lambda: object_log(LocalStore(place)),
        "shaky": lambda: object_log(ShakyStore(lost=0.2, refused=0.2)),
    }
    if kind in here:
        return here[kind](), lambda: None
    if kind == "fsspec":
        held = ExitStack()
        server, options = held.enter_context(faulty_s3())
        request.addfinalizer(held.close)
        chance = Random(0)  # noqa: S311 - of a test
        server.is_lost = lambda: chance.random() < _LOST
        return file_system_log(file_system(options)), lambda: None
    if kind == "azure":
        held = ExitStack()
        store = held.enter_context(azure(Path(place)))
        request.addfinalizer(held.close)
        return object_log(store), lambda: None
    spark, directory = request.getfixturevalue("spark"), Path(place, "q", "status")
    if kind == "spark":
        return TestedLog(spark, f"{place}/q", directory, by_spark=True), lambda: None
    # A store that is this disk under a name by which nobody knows that.
    name = f"far{uuid.uuid4().hex}"
    mount, named = f"fs.viewfs.mounttable.{name}.link./data", f"viewfs://{name}/data/q"
    spark.conf.set(mount, f"file:{place}/data")
    Path(place, "data").mkdir()
    if kind == "beside":
        # The tasks of Spark write to it, and Spark reads it, as any of its file systems.
        tables = ObjectTables(ShakyStore(LocalStore(place), lost=0.1, refused=0.1))
        made = TestedLog(spark, named, by_spark=True, tables=tables)
    else:
        directory = Path(place, "data", "q", "status")
        made = TestedLog(spark, named, directory, by_spark=True)
    return made, lambda: spark.conf.unset(mount)
