"""Hostile values in the columns of items, by every way into a queue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from spark_queue import DurableQueue, FrontOptions, journaled_queue
from spark_queue.testing import memory_queue
from tests.unit.hostile.values import VALUES
from tests.unit.hostile.verdicts import fault, outcome_of

Put = Callable[[dict[str, Any]], object]

TYPES = ("string", "binary", "boolean", "int", "double", "decimal(9,2)", "date", "timestamp")


@pytest.fixture
def put(request: pytest.FixtureRequest, kind: str) -> Iterator[Put]:
    """Return what takes an item of two columns."""
    queue = memory_queue(f"odd {kind}, n int")
    if request.param == "enqueue":
        yield queue.enqueue
        return
    if request.param == "journal":
        with journaled_queue(queue) as journal:
            yield journal.put
        return
    soon = timedelta(milliseconds=1)
    with DurableQueue(queue, options=FrontOptions(linger=soon)) as front:
        yield front.put


@pytest.mark.parametrize("put", ["enqueue", "front", "journal"], indirect=True)
@pytest.mark.parametrize("kind", TYPES)
def test_no_value_of_a_column_does_harm(put: Put) -> None:
    """A value is taken, or refused by an error that names its column, or the item."""
    found = {}
    for named, make in VALUES.items():
        raised = outcome_of(lambda: put({"odd": make(), "n": 1}))  # noqa: B023 - it is called here
        wrong = fault(raised, "odd")
        if wrong is None and raised is not None and not re.search("odd|the item", str(raised)):
            wrong = f"nothing is named: {raised}"
        if wrong:
            found[named] = wrong
    assert not found
