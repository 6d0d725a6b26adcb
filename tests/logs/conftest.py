"""Empty logs of each kind."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from obstore.store import LocalStore

from spark_queue.log.object.object_tables import ObjectTables
from tests.logs.logs import TestedLog, local_log, memory_log, object_log
from tests.logs.stand_ins import azure
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
