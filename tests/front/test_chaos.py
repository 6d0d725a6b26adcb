from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.programs import run_python

_CHAOS = Path(__file__).parents[2] / "jobs" / "bench" / "chaos_front.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        ("journaled-alone", 5),
        ("durable-alone", 5),
        pytest.param("durable", 1, marks=pytest.mark.spark),
    ],
)
def test_a_killed_front_keeps_what_it_promised(kind: str, kills: int) -> None:
    """Law 2: SIGKILL beside 4 producers and 4 consumers: nothing that was told durable is lost.

    Nor is anything delivered after its ack was durable, to two at a time, or before its group.
    """
    words = ["--kind", kind, "--kills", str(kills), "--seed", "4", "--json"]
    ended = run_python(_CHAOS, *words, timeout=1800)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    facts = json.loads(ended.stdout)
    assert (facts["kills"], facts["holds"]) == (kills, True)
    assert facts["delivered"] >= facts["promised"] > 0
