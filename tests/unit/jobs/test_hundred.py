"""The run of a hundred million items goes on where it was stopped, and says what it takes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

_ITEMS = 100_000


@pytest.fixture
def job(script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the job, whose verbs take what they have items, and start no process."""
    hundred = script("hundred")
    hundred.asked = []

    def measured(_: Path, name: str, verb: str, items: int) -> dict[str, Any]:
        hundred.asked.append(f"{name}/{verb}")
        if hundred.asked[-1] == hundred.ends_at:
            raise SystemExit("stopped")
        seconds = items // (20 if verb.startswith("enqueue") else hundred.QUEUES[name])
        what = {"claims": "claim", "small": "small claim", "later": "later claim"}.get(verb, verb)
        took = {what.partition("-")[0]: [[seconds, seconds / 2]]}
        rest = {"python": 0.5, "jvm": 3.5, "bytes": 30 * items}
        return {"name": name, "verb": verb, "took": took, **rest}

    hundred.ends_at = None
    monkeypatch.setattr(hundred, "_measured", measured)
    return hundred


def _run(job: Any, at: Path, *options: str) -> Any:
    return CliRunner().invoke(job.app, ["run", "--at", str(at), "--items", str(_ITEMS), *options])


def test_a_run_that_was_stopped_goes_on(job: Any, tmp_path: Path) -> None:
    """What was measured is not measured again, by the same command; ``--from`` forgets the rest."""
    job.ends_at = "whole/drain"
    assert _run(job, tmp_path).exit_code == 1
    first = list(job.asked)
    job.ends_at = None
    job.asked.clear()

    assert _run(job, tmp_path).exit_code == 0
    assert job.asked[0] == "whole/drain"
    every = [*first[:-1], *job.asked]
    assert len({*every}) == len(every)

    job.asked.clear()
    assert _run(job, tmp_path, "--from", "whole/purge").exit_code == 0
    assert job.asked == ["whole/purge", "whole/later"]
    assert "none of" in _run(job, tmp_path, "--from", "nothing").output


def test_what_touches_all_is_over_ten_times_a_tenth(job: Any, tmp_path: Path) -> None:
    """Ten times the seconds are as many for what touches all, and ten times too many elsewhere."""
    ran = _run(job, tmp_path)
    lines = [json.loads(line) for line in ran.output.splitlines() if line.startswith("{")]
    found = {line["name"]: line["value"] for line in lines}
    for name in ("enqueue", "stats", "states", "maintain", "purge"):
        assert found[f"hundred.{name}"] == found[f"hundred.{name}.work"] == 1.0
    for name in ("claim", "drain", "small-claim", "later-claim"):
        assert found[f"hundred.{name}"] == 10.0
    assert (found["hundred.jvm"], found["hundred.bytes"]) == (3.5, 30)
    assert _run(job, tmp_path, "--strict").exit_code == 1


def test_a_run_that_does_not_fit_is_refused(
    job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes are said first, and a fifth of them has to stay free."""
    free = int(job._BYTES * _ITEMS * 1.1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    ran = _run(job, tmp_path)
    assert ran.exit_code == 2
    assert "do not fit" in ran.output
    assert job.asked == []
