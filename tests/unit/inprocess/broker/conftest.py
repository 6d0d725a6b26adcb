from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.inprocess.broker.stage import Stage


@pytest.fixture(params=["threads", "coroutines"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Set a stage for tasks on threads, and one for coroutines."""
    made = Stage(request.param)
    yield made
    made.close()
