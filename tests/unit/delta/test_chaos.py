from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.programs import run_python

_CHAOS = Path(__file__).parents[3] / "jobs" / "bench" / "chaos_processes.py"


@pytest.mark.slow
def test_killed_processes_lose_nothing_and_take_nothing_twice() -> None:
    """Laws 1-4, FC-02: after 100 SIGKILLs among four processes all holds, and is served."""
    words = ["--kills", "100", "--seed", "5", "--within", "0.25", "--json"]
    ended = run_python(_CHAOS, *words, timeout=1800)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    facts = json.loads(ended.stdout)
    assert (facts["kills"], facts["holds"]) == (100, True)
    assert set(facts["killed_at"]) > {"any"}
    assert facts["items"] == facts["acked"] + facts.get("dead", 0) >= facts["puts"] > 0
