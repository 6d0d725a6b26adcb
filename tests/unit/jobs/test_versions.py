"""The table of versions of Spark, in README."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from packaging.requirements import Requirement

from spark_queue.extras import SUPPORTED, WITHOUT_DELTA

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
    sessions = [version for version in results if "session" not in results[version]]
    assert {*map(_line_of, sessions)} == {*SUPPORTED, *WITHOUT_DELTA}
    queues = [version for version in sessions if results[version]["verbs"] == "ok"]
    assert tuple(dict.fromkeys(map(_line_of, queues))) == SUPPORTED


def test_what_needs_no_delta_runs_without_one(versions: Any) -> None:
    """Of a Spark that has none, a queue by a session is refused, with the reason, and no more."""
    results = versions.kept(versions.RESULTS)
    for line in WITHOUT_DELTA:
        refused = {part for part, outcome in results[line].items() if outcome != "ok"}
        queues = {"verbs", "large steps", "process", "readers", "fronts", "upkeep"}
        by_session = {"streams of a queue", "commands of Spark", "connect verbs", "connect work"}
        assert refused == queues | by_session
        assert all("there is no Delta yet" in results[line][part] for part in refused)


def _line_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


def test_what_did_not_come_to_its_end_is_said(versions: Any) -> None:
    """A part that failed, or that a process did not come to, is no part that works."""
    results = versions.kept(versions.RESULTS)
    results["4.2"] = {**results["4.2"], "operators on frames": "failed: ValueError"}
    del results["4.2"]["format as a sink"]
    lines = [line.split(" | ") for line in versions.table(results).splitlines()]
    place = lines[0].index("Spark 4.2.0")
    found = {line[0].removeprefix("| "): line[place] for line in lines}
    assert found["operators on frames"] == found["… as a sink"] == "failed"
    assert found["operators on streams"] == "yes"


def test_a_refused_session_stands_for_what_was_not_played_alone(versions: Any) -> None:
    """What needs no session has an outcome of its own."""
    played = {"local queue": "ok", "session": "refused: no", "plain session": "refused: no"}
    assert versions._word(played, ("local queue",)) == "yes"
    assert versions._word(played, ("fronts",)) == "refused"
    assert versions._word({**played, "plain session": "failed: x"}, ("fronts",)) == "failed"


def test_pairs_that_pip_refuses_are_those_that_delta_does_not_allow(versions: Any) -> None:
    """Where Delta's package allows more, the pair is one as the others; README says how to."""
    needs = map(Requirement, metadata.requires("delta-spark") or ())
    allowed = next(need.specifier for need in needs if need.name == "pyspark")
    packages = {line: dict(one.split("==") for one in pair) for line, pair in _pairs(versions)}
    refused = [line for line, pair in packages.items() if pair["pyspark"] not in allowed]
    assert tuple(refused) == versions.REFUSED_BY_PIP
    for line in refused:
        assert f"pip install --no-deps pyspark=={packages[line]['pyspark']}" in _readme()
    for line in WITHOUT_DELTA:
        assert versions.PACKAGES[line][0] in _readme()


def _pairs(versions: Any) -> list[tuple[str, Any]]:
    """Return what is played with the Delta that is installed here."""
    delta = f"delta-spark=={metadata.version('delta-spark')}"
    return [(line, pair) for line, pair in versions.PACKAGES.items() if delta in pair]


def _readme() -> str:
    return (_ROOT / "README.md").read_text("utf-8")


def test_a_pair_that_pip_refuses_is_put_together_by_two_commands(
    versions: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second puts PySpark over the one that came with Delta, and asks nobody."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> CompletedProcess[str]:
        commands.append(command)
        (tmp_path / "venvs-4.2.1").mkdir(exist_ok=True)
        return CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(import_module("environments").subprocess, "run", run)
    versions._environment(tmp_path, "4.2.1")
    _, first, second = commands
    pyspark, delta = versions.PACKAGES["4.2.1"]
    assert delta in first
    assert not {pyspark, "--no-deps"} & {*first}
    assert second[-2:] == ["--no-deps", pyspark]
    commands.clear()
    versions._environment(tmp_path, "4.2.1")
    assert not commands


def test_extras_allow_the_versions_that_are_supported() -> None:
    """The range of PySpark in pyproject.toml begins and ends as the library's own list."""
    project = (_ROOT / "pyproject.toml").read_text("utf-8")
    range_of = re.search(r'"pyspark>=(\d\.\d)\.\d+,<(\d)\.(\d)"', project)
    assert range_of is not None
    first, major, after = range_of.groups()
    assert (first, f"{major}.{int(after) - 1}") == (SUPPORTED[0], SUPPORTED[-1])


def test_a_look_says_what_there_is_and_what_is_missing(versions: Any) -> None:
    """Of each line of Spark: the newest release, its jar of Delta, and what was played."""
    played = dict(one.split("==") for one in versions.PACKAGES["4.2.1"])
    older = versions.PACKAGES["4.0"][0].partition("==")[2]
    pyspark = ["9.1.0", "4.2.99", played["pyspark"], older, "3.5.9"]
    lines = versions.lines_of(pyspark)
    assert lines == ["4.0", "4.2", "9.1"]
    spark, jar = played["pyspark"], played["delta-spark"]
    jars = {"4.0": [jar], "4.2": ["4.9.10", "4.9.9"], "9.1": []}
    assert list(versions.compare(pyspark, ["99.0.0", jar], jars)) == [
        f"Spark 4.0: pyspark {older}, jar of Delta {jar}",
        f"Spark 4.2: pyspark 4.2.99, played: {spark}, jar of Delta 4.9.10, played: {jar}",
        "Spark 9.1: pyspark 9.1.0, played: none, no jar of Delta",
        "delta-spark 99.0.0 on PyPI; no jar of 99.0.0",
    ]
