from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.programs import run_python

_CHAOS = Path(__file__).parents[2] / "jobs" / "bench" / "chaos.py"


@pytest.mark.slow
@pytest.mark.spark
def test_a_killed_driver_loses_nothing_and_repeats_nothing() -> None:
    """Laws 1-4: SIGKILL at two moments, then a run in peace: every item is done exactly once."""
    ended = run_python(_CHAOS, "--kills", "2", "--seed", "7", "--rows", "12", "--json", timeout=900)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    facts = json.loads(ended.stdout)
    assert (facts["kills"], facts["holds"]) == (2, True)
    assert facts["items"] == facts["acked"] == facts["output_rows"]
