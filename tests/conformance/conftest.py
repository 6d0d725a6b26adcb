"""Runs every scenario over every engine that can play it, on classic Spark or on Spark Connect.

Small steps are decided in the process, as for a user. A law is played by SQL over the files, too,
and what is marked ``planned`` by the plans of Spark: items enter, are claimed, renewed, settled,
cancelled and redriven.
``SPARK_QUEUE_SESSION=planned`` has Spark decide everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest

from spark_queue.config import QueueConfig
from spark_queue.state import replica_choice
from tests.conformance.engines import KEYS, DeltaEngine, Engine, SchedulerEngine
from tests.conformance.fronts import FrontEngine, FrontVerbs, LocalFrontEngine
from tests.conformance.local import LocalEngine
from tests.conformance.memory import MemoryEngine
from tests.conformance.objects import BesideEngine, ObjectEngine
from tests.conformance.operators import BatchEngine, StreamEngine
from tests.conformance.twins import Pair, Seen, Twins
from tests.conftest import REMOTE

#: Every engine by its name. What needs no Spark is played once, beside classic Spark.
ENGINES: dict[str, type[Engine]] = {
    **(
        {}
        if REMOTE
        else {
            "scheduler": SchedulerEngine,
            "local": LocalEngine,
            "sql": LocalEngine,
            "memory": MemoryEngine,
            "object": ObjectEngine,
            "stream": StreamEngine,
            "front": FrontEngine,
            "beside": BesideEngine,
            "local-front": LocalFrontEngine,
        }
    ),
    "batch": BatchEngine,
    "delta": DeltaEngine,
    "planned": DeltaEngine,
}

#: Engines that are in the memory of the test alone.
_IN_MEMORY: dict[str, Callable[[QueueConfig], Engine]] = {
    "scheduler": SchedulerEngine,
    "memory": MemoryEngine,
    "object": ObjectEngine,
    "stream": StreamEngine,
}

#: Engines that have a session, and no path.
_OF_SESSION: dict[str, Callable[[Any, QueueConfig], Engine]] = {
    "batch": BatchEngine,
    "beside": BesideEngine,
}

#: Engines that need no session.
_PURE = {*_IN_MEMORY, "local", "sql", "local-front"}

#: Where SQL decides each step as well, however small.
_BY_SQL = {f"tests.conformance.test_{name}" for name in ("laws", "flow", "replace", "far")}

#: Makes an engine with some of the scenarios' keys, and any other options.
Make = Callable[..., Engine]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play a scenario on the engines that can do what it needs."""
    if "engine_name" not in metafunc.fixturenames:
        return
    needed = {what for mark in metafunc.definition.iter_markers("needs") for what in mark.args}
    names = [name for name, engine in ENGINES.items() if needed <= engine.capabilities]
    if metafunc.module.__name__ != "tests.conformance.test_views":
        # Its verbs are those of its two halves; what Spark reads of it is its own.
        names = [name for name in names if name != "beside"]
    if metafunc.module.__name__ not in _BY_SQL:
        names = [name for name in names if name != "sql"]
    is_planned = metafunc.definition.get_closest_marker("planned") is not None
    left_out = "delta" if REMOTE and is_planned else None if is_planned else "planned"
    metafunc.parametrize("engine_name", [_engine(name) for name in names if name != left_out])


def _engine(name: str) -> Any:
    return name if name in _PURE else pytest.param(name, marks=pytest.mark.spark)


@pytest.fixture
def make(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, engine_name: str, place: str
) -> Iterator[Make]:
    """Make a queue: ``make("fair_key", "group_key", group_limit=2)``."""
    made: list[Engine] = []
    if engine_name == "sql":
        monkeypatch.setattr(replica_choice, "LARGE", 0)

    def build(*keys: str, **options: Any) -> Engine:
        named: dict[str, Any] = {key: KEYS[key] for key in keys}
        config = QueueConfig(**named, **options)
        engine: Engine
        if engine_name in _IN_MEMORY:
            engine = _IN_MEMORY[engine_name](config)
        elif engine_name in ("local", "sql", "local-front"):
            kind = LocalFrontEngine if engine_name == "local-front" else LocalEngine
            engine = kind(f"{place}/queue{len(made)}", config)
        elif engine_name in _OF_SESSION:
            engine = _OF_SESSION[engine_name](request.getfixturevalue("spark"), config)
        else:
            engine = _durable(request, engine_name)(f"{place}/queue{len(made)}", config)
        made.append(engine)
        return engine

    yield build
    for engine in made:
        if isinstance(engine, FrontVerbs):
            engine.front.close()


@pytest.fixture
def twins(make: Make) -> Twins:
    """Make a queue of the engine, and the same in memory."""

    def build(*keys: str, **options: Any) -> Pair:
        named: dict[str, Any] = {key: KEYS[key] for key in keys}
        engine = cast("Seen", make(*keys, **options))
        return Pair(engine, MemoryEngine(QueueConfig(**named, **options)))

    return build


def _durable(request: pytest.FixtureRequest, name: str) -> Callable[[str, QueueConfig], Engine]:
    """Return what makes a queue of the session, where ``planned`` decided by its plans."""
    if name == "planned":
        request.getfixturevalue("by_spark")
    engine = FrontEngine if name == "front" else DeltaEngine
    return partial(engine, request.getfixturevalue("spark"))
