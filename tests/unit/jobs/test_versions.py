"""The table of versions of Spark, in README."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from spark_queue.extras import SUPPORTED

_ROOT = Path(__file__).parents[3]


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the job from where it lies."""
    monkeypatch.syspath_prepend(str(_ROOT / "jobs"))
    return import_module("versions")


def test_readme_has_what_came_of_each_version(
    versions: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table of README is that of the results that are kept, in which nothing failed."""
    assert versions.main(["--check"]) == 0, capsys.readouterr().out
    results = versions.kept(versions.RESULTS)
    assert results.keys() == versions.PACKAGES.keys()
    assert "failed" not in versions.table(results)
    played = [version for version in results if "session" not in results[version]]
    assert tuple(played) == SUPPORTED


def test_what_did_not_come_to_its_end_is_said(versions: Any) -> None:
    """A part that failed, or that a process did not come to, is no part that works."""
    results = versions.kept(versions.RESULTS)
    results["4.2"] = {**results["4.2"], "fronts": "failed: ValueError"}
    del results["4.2"]["verbs"]
    lines = versions.table(results).splitlines()
    found = {line.split("|")[1].strip(): line.split("|")[-3].strip() for line in lines}
    assert found["fronts"] == found["queues, readers, upkeep"] == "failed"
    assert found["`process`"] == "yes"


def test_extras_allow_the_versions_that_are_supported() -> None:
    """The range of PySpark in pyproject.toml begins and ends as the library's own list."""
    project = (_ROOT / "pyproject.toml").read_text("utf-8")
    range_of = re.search(r'"pyspark>=(\d\.\d)\.\d+,<(\d)\.(\d)"', project)
    assert range_of is not None
    first, major, after = range_of.groups()
    assert (first, f"{major}.{int(after) - 1}") == (SUPPORTED[0], SUPPORTED[-1])


def test_a_look_says_what_there_is_and_what_is_missing(versions: Any) -> None:
    """Of each line of Spark: the newest release, its jar of Delta, and what was played."""
    played = dict(one.split("==") for one in versions.PACKAGES["4.2"])
    pyspark = ["9.1.0", "4.2.99", played["pyspark"], "4.0.1", "3.5.9"]
    lines = versions.lines_of(pyspark)
    assert lines == ["4.0", "4.2", "9.1"]
    spark, jar = played["pyspark"], played["delta-spark"]
    jars = {"4.0": [jar], "4.2": ["4.9.10", "4.9.9"], "9.1": []}
    assert list(versions.compare(pyspark, ["99.0.0", jar], jars)) == [
        f"Spark 4.0: pyspark 4.0.1, jar of Delta {jar}",
        f"Spark 4.2: pyspark 4.2.99, played: {spark}, jar of Delta 4.9.10, played: {jar}",
        "Spark 9.1: pyspark 9.1.0, played: none, no jar of Delta",
        "delta-spark 99.0.0 on PyPI; no jar of 99.0.0",
    ]
