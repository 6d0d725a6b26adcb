"""Queues for threads, and their fronts for coroutines."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import pytest

import spark_queue
from spark_queue.front.durable import DurableQueue

#: What returns an object of its own that waits, or a future, and is as good in a coroutine.
_WAIT_FOR_NOTHING = {"BlockingQueue.get_future", "InProcessLock.acquire_future", "QueueBroker.idle"}

#: What tells a thread whether to wait at all: a coroutine does, or asks for a timeout of 0.
_OF_THREADS = {"block", "wait"}


def _classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(spark_queue.__path__, "spark_queue."):
        if module.name.endswith("__main__"):
            continue
        try:
            found = importlib.import_module(module.name)
        except ImportError:
            continue
        yield from (
            value
            for value in vars(found).values()
            if inspect.isclass(value) and value.__module__ == module.name
        )


def _twin(sync: type) -> type | None:
    """Return the front for coroutines that a class has."""
    prop = vars(sync).get("aio")
    if not isinstance(prop, property) or prop.fget is None:
        return None
    name = str(prop.fget.__annotations__["return"]).split("[")[0]
    twin: type = getattr(importlib.import_module(sync.__module__), name)
    return twin


PAIRS = {sync: twin for sync in _classes() if (twin := _twin(sync)) is not None}


def _verbs(of: type) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(of).items()
        if isinstance(value, FunctionType) and not name.startswith("_")
    }


def _parameters(verb: Any) -> list[tuple[str, object, object]]:
    found = inspect.signature(verb).parameters.values()
    return [(one.name, one.kind, one.default) for one in found if one.name not in _OF_THREADS]


def test_the_front_for_coroutines_has_every_verb() -> None:
    """A DurableQueue does for coroutines all that it does for threads, and as a scope, too."""
    twin = PAIRS[DurableQueue]

    assert _verbs(twin).keys() == _verbs(DurableQueue).keys()
    assert {"__aenter__", "__aexit__"} <= vars(twin).keys()


@pytest.mark.parametrize("sync", PAIRS, ids=lambda sync: sync.__name__)
def test_verbs_of_both_are_called_alike(sync: type) -> None:
    """What waits for threads waits for coroutines, with the same parameters and defaults."""
    here, there = _verbs(sync), _verbs(PAIRS[sync])
    waiting = {
        name
        for name, verb in here.items()
        if "timeout" in inspect.signature(verb).parameters
        and f"{sync.__name__}.{name}" not in _WAIT_FOR_NOTHING
    }

    assert waiting <= there.keys()
    for name in here.keys() & there.keys():
        assert _parameters(here[name]) == _parameters(there[name]), name
