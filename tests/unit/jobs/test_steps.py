from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Import = Callable[[str], Any]

#: What has a target, by the section that measures it without Spark.
OWED = {
    "one_row": {
        f"one_row.{s}.{w}" for s in ("enqueue", "claim", "settle") for w in ("wait", "work")
    },
    "depth": {"claim.ten.ms", "depth.claim", "depth.first"},
    "start": {"start.import", "start.open"},
}


@pytest.mark.parametrize("name", OWED)
def test_sections_without_spark_start_none(script: Import, name: str, tmp_path: Path) -> None:
    """What has a target is measured, and no session is made for it."""
    section = script("steps").SECTIONS[name]
    with script("steps_bench").bench(tmp_path, 2, 0.01) as here:
        figures = list(section(here))
        assert "spark" not in vars(here)
    assert {figure.name for figure in figures if figure.target is not None} == OWED[name]
    assert all(figure.value > 0 for figure in figures)
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_not_there_is_named(
    script: Import,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without PostgreSQL or PgQueuer nothing is measured, and it is said what is missing."""
    section = script("steps_database")
    monkeypatch.setattr(section.postgres, "programs", lambda: None)
    monkeypatch.setattr(section, "find_spec", lambda _: None)
    with script("steps_bench").bench(tmp_path, 2, 0.01) as here:
        assert list(section.database(here)) == []
    said = capsys.readouterr().err
    assert "PostgreSQL is not installed" in said
    assert "pgqueuer is not installed" in said


def test_syncs_are_counted(script: Import, tmp_path: Path) -> None:
    """Every sync of a call is seen, where the system lets one process look at another."""
    file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)

    def twice() -> None:
        os.fsync(file)
        os.fdatasync(file)

    seen = script("syncs").syncs_of(twice)
    os.close(file)
    if seen is None:
        pytest.skip("no strace, or it may not look")
    assert seen == 2


def test_without_strace_no_sync_is_told(script: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be seen is no zero."""
    syncs = script("syncs")
    monkeypatch.setattr(syncs.shutil, "which", lambda _: None)
    assert syncs.syncs_of(lambda: None) is None
