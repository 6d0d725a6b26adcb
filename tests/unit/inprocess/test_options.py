"""Options of what works in a process: a bad one is refused at once."""

from __future__ import annotations

from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.blocking import BlockingQueue
from spark_queue.memory.broker import QueueBroker
from spark_queue.memory.broker.turn_scheduler import TaskScheduler
from spark_queue.memory.fair import FairQueue
from spark_queue.memory.guards import OnceGuard
from spark_queue.memory.singular import SingularUpdateQueue, WorkerPool

#: What is made, the options that are fine, the one that is tried, and values that it cannot have.
BAD: list[tuple[Any, dict[str, Any], str, tuple[Any, ...]]] = [
    (BlockingQueue, {}, "max_items", (0, -1, 2.5, "many")),
    (BlockingQueue, {}, "full_policy", ("drop_oldes",)),
    (FairQueue, {"key": str}, "limit", (1.5, "many", True)),
    (FairQueue, {}, "key", ("name",)),
    (OnceGuard, {"make": str}, "max_retries", (-1, 1.5)),
    (QueueBroker, {}, "max_active", (0, -1)),
    (QueueBroker, {"max_active": 1}, "max_waiting", (-1,)),
    (QueueBroker, {"max_active": 1}, "max_idle", (0, -1)),
    (QueueBroker, {"max_active": 1}, "mode", ("automatic",)),
    (QueueBroker, {"max_active": 1}, "order", ("random",)),
    (TaskScheduler, {}, "order", ("arival",)),
    (SingularUpdateQueue, {"handler": str}, "capacity", (0, -5, 1.5)),
    (WorkerPool, {}, "threads", (0, -1, 1.5)),
]


@pytest.mark.parametrize(
    ("make", "fine", "name", "value"),
    [(make, fine, name, value) for make, fine, name, values in BAD for value in values],
)
def test_a_bad_option_is_refused_by_its_name(
    make: Any, fine: dict[str, Any], name: str, value: Any
) -> None:
    """A number out of its range, a word that is no choice, a key that is no function."""
    with pytest.raises(InvalidArgumentError, match=f"{name} is {value!r}"):
        make(**fine, **{name: value})
