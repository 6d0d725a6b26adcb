"""Hostile values for every parameter of every public call, each of which is found by itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from inspect import Parameter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.unit.hostile.calls import Call, public_calls
from tests.unit.hostile.receivers import World, good
from tests.unit.hostile.values import VALUES
from tests.unit.hostile.verdicts import fault, outcome_of


def _tried() -> Iterator[tuple[Call, Parameter]]:
    """Yield the parameters of all calls; those of a method that several classes have once.

    Of these, a queue without Spark does what it is told, where others only refuse.
    """
    seen = set[tuple[object, str]]()
    for call in sorted(
        public_calls(), key=lambda call: call.name.partition(".")[0] != "LocalQueue"
    ):
        for parameter in call.parameters:
            known = (call.function, parameter.name)
            if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) or known in seen:
                continue
            seen.add(known)
            yield call, parameter


_TRIED = list(_tried())


def _started(_builder: object) -> None:
    raise AssertionError("a session is started")


def _id(value: Any) -> str:
    return str(value.name)


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let names of files mean places that are gone after the test."""
    monkeypatch.chdir(tmp_path)
    # What a front or a hook logs of a failure is no outcome of the call.
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", _started)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("call", "parameter"), _TRIED, ids=_id)
def test_no_value_does_harm(call: Call, parameter: Parameter) -> None:
    """A value is taken, or refused by a sentence of ours before anything is written."""
    found = list(_faults(call, parameter))
    assert not found, "\n".join([f"{call.name}({parameter.name})", *found])


def _faults(call: Call, parameter: Parameter) -> Iterator[str]:
    world, others = World(), dict[str, Any]()
    for named, make in VALUES.items():
        if not world.made:
            world = World()
            others = _others(call, parameter, world)
        value, before = make(), world.steps
        is_own = _is_own(parameter, value)
        raised = outcome_of(lambda: _made(call, world, {**others, parameter.name: value}))  # noqa: B023 - it is called here
        wrong = None if is_own else fault(raised, parameter.name)
        if not is_own and raised is not None and world.steps != before and not world.ends:
            wrong = f"{world.steps - before} step(s) were written, and then: {raised!r:.200}"
        if wrong:
            yield f"{named}: {wrong}"
        if raised is None or wrong:
            outcome_of(world.close)
            world = World()
    outcome_of(world.close)


def _others(call: Call, tried: Parameter, world: World) -> dict[str, Any]:
    """Return good values for what must be given beside the one that is tried."""
    world.made["receiver"] = _receiver(call, world)
    # What is told to stay has to end all the same.
    ends = {"time_limit": timedelta(0)} if tried.name == "forever" else {}
    return ends | {
        one.name: good(call.name, one.name, world)
        for one in call.parameters
        if one.name != tried.name
        and one.default is Parameter.empty
        and one.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    }


def _receiver(call: Call, world: World) -> Any:
    if call.owner is None:
        return getattr(import_module(call.method), call.name.rpartition(".")[2])
    return world.get(call.name.partition(".")[0]) if call.is_method else None


def _made(call: Call, world: World, given: dict[str, Any]) -> Any:
    by_place = [
        given.pop(one.name)
        for one in call.parameters
        if one.kind is Parameter.POSITIONAL_ONLY and one.name in given
    ]
    return call.bound(world.made["receiver"])(*by_place, **given)


def _is_own(parameter: Parameter, value: object) -> bool:
    """Tell whether a value is a function of the caller, whose errors are the caller's."""
    is_called = any(
        word in str(parameter.annotation) for word in ("Callable", "Handler", "Operation")
    )
    return is_called and callable(value)
