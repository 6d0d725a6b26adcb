"""Runs every scenario over every engine: the scheduler, and Delta on classic Spark or Connect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spark_queue.config import QueueConfig
from tests.conformance.engines import KEYS, DeltaEngine, Engine, SchedulerEngine
from tests.conftest import REMOTE

ENGINES = ["delta"] if REMOTE else ["scheduler", "delta"]

#: Makes an engine with some of the scenarios' keys, and any other options.
Make = Callable[..., Engine]


@pytest.fixture(params=ENGINES)
def make(request: pytest.FixtureRequest, place: str) -> Make:
    """Make a queue: ``make("fair_key", "group_key", group_limit=2)``."""
    made: list[Engine] = []

    def build(*keys: str, **options: Any) -> Engine:
        named: dict[str, Any] = {key: KEYS[key] for key in keys}
        config = QueueConfig(**named, **options)
        engine: Engine
        if request.param == "scheduler":
            engine = SchedulerEngine(config)
        else:
            spark = request.getfixturevalue("spark")
            engine = DeltaEngine(spark, f"{place}/queue{len(made)}", config)
        made.append(engine)
        return engine

    return build
