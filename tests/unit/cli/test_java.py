from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_queue import extras
from spark_queue.extras import java_problem
from spark_queue.local_queue import LocalQueue
from tests.conftest import CommandLine


def _java_that_says(directory: Path, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = directory / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{words}' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(directory))


@pytest.mark.parametrize("words", ['openjdk version "17.0.15" 2025-04-15', 'java version "21"'])
def test_supported_java_is_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Java 17 and 21 are what Spark runs on."""
    _java_that_says(tmp_path, words, monkeypatch)

    assert java_problem() is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ('openjdk version "1.8.0_412"', "is Java 8"),
        ('openjdk version "11.0.2"', "is Java 11"),
        ("something else", "does not run"),
    ],
)
def test_other_java_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, why: str
) -> None:
    """A version that Spark does not run on is named, with what to install."""
    _java_that_says(tmp_path, words, monkeypatch)

    problem = java_problem() or ""

    assert why in problem
    assert "install Java 17 or 21" in problem


def test_java_home_without_java_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAVA_HOME decides, as it does for Spark, also where it is wrong."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert "does not run" in (java_problem() or "")


def test_no_java_is_one_line_and_wrong_setup(
    monkeypatch: pytest.MonkeyPatch, command_line: CommandLine, tmp_path: Path
) -> None:
    """Without Java a command says what to install before it starts anything."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    ended = command_line("process", "hdfs://host/q", "json:loads")

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("spark-queue: Java was not found: install Java 17 or 21")
    assert ended.err.count("\n") == 1


def test_without_java_a_handler_runs_in_this_process(
    monkeypatch: pytest.MonkeyPatch, command_line: CommandLine, tmp_path: Path
) -> None:
    """A queue that is on this machine's disk is worked off where there is no Java."""
    queue = LocalQueue.create(f"{tmp_path}/q", "id string", durability="process")
    queue.enqueue({"id": "a"})
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    ended = command_line("process", f"{tmp_path}/q", "builtins:repr", "--json")

    assert (ended.code, json.loads(ended.out)["acked"]) == (0, 1)
    assert queue.stats().acked == 1


def test_supported_versions_are_those_that_are_named() -> None:
    """The advice names every supported version."""
    assert all(str(version) in extras._HINT for version in extras.JAVAS)
