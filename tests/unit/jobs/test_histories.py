from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any


def test_a_seed_draws_one_configuration(script: Callable[[str], Any]) -> None:
    """Every seed gives a configuration that is valid, and the same one each time."""
    job = script("histories")
    drawn = [_config(job, seed) for seed in range(300)]
    assert drawn == [_config(job, seed) for seed in range(300)]
    assert {config.fair_key for config in drawn} == {None, "tenant"}
    assert {config.group_limit for config in drawn} == {1, 2, 3}
    assert any(config.weights for config in drawn)


def test_every_command_is_one_of_a_history(script: Callable[[str], Any]) -> None:
    """What may be drawn can be done."""
    job = script("histories")
    assert all(callable(getattr(job.History, f"_{name}")) for name in job._COMMANDS)


def _config(job: Any, seed: int) -> Any:
    return job._config(random.Random(seed))  # noqa: S311 - it has to be repeatable, not secret
