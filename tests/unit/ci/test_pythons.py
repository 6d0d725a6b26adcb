"""The other versions of Python on which the gate runs tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

_ROOT = Path(__file__).parents[3]


@pytest.fixture
def pythons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the script as a module, on a machine that has no Python but this one."""
    spec = importlib.util.spec_from_file_location("pythons", _ROOT / ".ci" / "pythons.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return module


def _interpreter(place: Path, version: str, *, code: int = 0) -> str:
    place.mkdir(parents=True)
    program = place / f"python{version}"
    program.write_text(f"#!/bin/sh\nexit {code}\n", "utf-8")
    program.chmod(0o755)
    return str(program)


def test_versions_are_those_of_the_project(pythons: ModuleType) -> None:
    """The oldest is the one that the package requires."""
    project = (_ROOT / "pyproject.toml").read_text("utf-8")
    assert f'requires-python = ">={pythons.supported()[0]}"' in project


def test_a_python_that_is_not_there_is_said(
    pythons: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check does not fail on a machine that lacks one, and its last line names it."""
    monkeypatch.setattr(pythons, "supported", lambda: ["3.4", "3.99"])
    assert pythons.main(["newest"]) == 0
    assert capsys.readouterr().out == (
        "skipped on Python 3.99: there is no python3.99 on this machine\n"
    )


def test_the_python_of_the_gate_is_not_run_twice(
    pythons: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the gate runs on the newest Python already, nothing is left to do for it."""
    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    monkeypatch.setattr(pythons, "supported", lambda: [this])
    assert pythons.main(["newest"]) == 0
    assert capsys.readouterr().out.startswith(f"skipped on Python {this}: ")


def test_the_oldest_dependencies_are_the_lowest_bounds_of_the_project(pythons: ModuleType) -> None:
    """Each dependency that has a bound is installed as it, whatever the index has by now."""
    bounds = dict(line.split("==") for line in pythons.lowest().splitlines())
    project = (_ROOT / "pyproject.toml").read_text("utf-8")
    for name in ("deltalake", "duckdb", "pyarrow", "typer", "pandas", "obstore", "starlette"):
        assert f'"{name}>={bounds[name]}' in project
    assert "hatchling" not in bounds


def test_an_interpreter_that_does_not_start_is_passed_over(
    pythons: ModuleType, tmp_path: Path
) -> None:
    """On the PATH pyenv has one for each version, of which it starts only the chosen one."""
    assert pythons.found("3.99") is None
    _interpreter(tmp_path / "bin", "3.99", code=127)
    wanted = _interpreter(tmp_path / "pyenv" / "versions" / "3.99.1" / "bin", "3.99")
    assert pythons.found("3.99") == wanted


def test_the_exit_code_is_that_of_the_tests(
    pythons: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What fails on another Python fails the check."""
    monkeypatch.setattr(pythons, "supported", lambda: ["3.99"])
    _interpreter(tmp_path / "bin", "3.99")
    run, seen = pythons.subprocess.run, []

    def runs(command: list[str], **options: Any) -> Any:
        seen.append(options.get("env", {}))
        return run([sys.executable, "-c", "exit(5)"] if "pytest" in command else command, **options)

    monkeypatch.setattr(pythons.subprocess, "run", runs)
    assert pythons.main(["oldest"]) == 5
    assert seen[-1]["SPARK_QUEUE_EXTRA"] == "test"
    assert Path(seen[-1]["PIP_CONSTRAINT"]).read_text("utf-8") == pythons.lowest()
    assert pythons.main(["newest"]) == 5
    assert Path(seen[-1]["PIP_CONSTRAINT"]).read_text("utf-8") == ""
