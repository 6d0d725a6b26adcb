"""Power cuts: disks as they may be left, and what is held against them."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.programs import run_python

Import = Callable[[str], Any]

_JOB = Path(__file__).parents[3] / "jobs" / "bench" / "power.py"

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is not installed: no system calls are recorded"
)


def _kept(script: Import, root: Path, calls: list[tuple[Any, ...]]) -> dict[str, dict[str, Any]]:
    """Return the disks that a power cut may leave after calls, by their kind."""
    trace, model = script("power_trace"), script("power_disk")
    disk = model.Disk(root)
    for at, (kind, path, *more) in enumerate(calls):
        facts: dict[str, Any] = dict(more[0]) if more else {}
        if "other" in facts and facts["other"] != "directory":
            facts["other"] = str(root / facts["other"])
        disk.apply(trace.Effect(kind, str(root / path), begun=at, **facts))
    return _states(disk)


def _states(disk: Any) -> dict[str, dict[str, Any]]:
    return dict(disk.states(random.Random(1), 0))  # noqa: S311 - nothing is drawn


def test_what_is_forced_stays_and_names_need_their_own(tmp_path: Path, script: Import) -> None:
    """A file whose name nobody forced may be gone, and one whose content nobody forced is empty."""
    disks = _kept(
        script,
        tmp_path,
        [
            ("make", "a"),
            ("write", "a", {"data": b"of a"}),
            ("force", "a"),
            ("make", "b"),
            ("write", "b", {"data": b"of b"}),
            ("force", "."),
            ("name", "b", {"other": "c"}),
            ("remove", "a"),
        ],
    )

    assert disks["forced"] == {"a": b"of a", "b": b""}
    assert disks["names"] == {"b": b"", "c": b""}
    assert disks["zeros"] == {"b": bytes(4), "c": bytes(4)}
    assert disks["all"] == {"b": b"of b", "c": b"of b"}


def test_what_comes_while_a_file_is_forced_is_not(tmp_path: Path, script: Import) -> None:
    """A call forces what was there when it began."""
    trace, disk = script("power_trace"), script("power_disk").Disk(tmp_path)
    name = str(tmp_path / "a")
    for effect in (
        trace.Effect("make", name),
        trace.Effect("force", str(tmp_path), begun=1),
        trace.Effect("write", name, data=b"1"),
        trace.Effect("write", name, data=b"2", at=1),
        trace.Effect("force", name, begun=3),
    ):
        disk.apply(effect)

    assert _states(disk)["forced"] == {"a": b"1"}


@needs_strace
def test_a_power_cut_takes_back_nothing_that_was_told() -> None:
    """A short run of the job: each disk opens, has all steps that were told, and can go on."""
    words = ["--only", "small steps", "--every", "41", "--draws", "1", "--seed", "1", "--json"]
    done = run_python(_JOB, *words)
    (found,) = json.loads(done.stdout)["histories"]

    assert found["lost"] == []
    assert found["states"] > 25
    assert "unknown" not in found["left"]
    assert done.returncode == 0


@needs_strace
def test_a_program_that_forces_nothing_is_found(tmp_path: Path, script: Import) -> None:
    """Of a log whose calls that force are left out, records that were told are missing."""
    trace, check = script("power_trace"), script("power_check")
    model, work = script("power_disk"), script("power_work")
    root, told = tmp_path / "disk", tmp_path / "told"
    work.prepare("records", root)
    disks = {forces: model.Disk(root) for forces in (True, False)}
    command = [sys.executable, work.__file__, "records", str(root), str(told)]
    effects = trace.record(command, root, told)
    lines = [json.loads(one.data) for one in effects if one.kind == "tell"]

    for forces, disk in disks.items():
        for effect in effects:
            if forces or effect.kind != "force":
                disk.apply(effect)
        model.lay(_states(disk)["forced"], root)
        assert bool(check.judge("records", root, lines, []).lost) is not forces
