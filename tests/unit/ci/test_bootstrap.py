from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.programs import run_python

_FILE = Path(__file__).parents[3] / ".ci" / "bootstrap.py"

Setup = Callable[..., Any]


@pytest.fixture
def bootstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the script as a module, with an environment of its own on a machine that has Java."""
    spec = importlib.util.spec_from_file_location("bootstrap", _FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "STAMP", tmp_path / ".venv" / "installed.sha256")
    monkeypatch.setattr(module, "_problem", lambda _: None)
    monkeypatch.setattr(module, "_run", lambda _: 0)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    return module


@pytest.fixture
def setup(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Setup:
    """Run the script for a command; return its exit code and the steps of the set-up."""

    def run(*argv: str, uv: str | None = None, fails: str = "none") -> tuple[int, list[str]]:
        steps: list[str] = []

        def step(command: list[str], **_: Any) -> Any:
            steps.append(" ".join(command).replace(str(tmp_path), "").replace(sys.executable, "py"))
            bootstrap._python().parent.mkdir(parents=True, exist_ok=True)
            bootstrap._python().touch()
            return SimpleNamespace(returncode=int(fails in command), stdout="", stderr="no luck")

        monkeypatch.setattr(bootstrap.shutil, "which", lambda _: uv)
        monkeypatch.setattr(bootstrap.subprocess, "run", step)
        return bootstrap.main(list(argv)), steps

    return run


def test_first_command_gets_what_it_needs_and_no_more(setup: Setup, bootstrap: ModuleType) -> None:
    """The main job is set up without the tools of a developer; they come when they are needed."""
    root = bootstrap.ROOT
    pip = "/.venv/bin/python -m pip install --quiet --no-compile"

    assert setup("spark-queue", "ingest") == (
        0,
        ["py -m venv --clear /.venv", f"{pip} -e {root}[spark]"],
    )
    assert setup("spark-queue", "status") == (0, [])
    assert setup("pytest") == (0, ["py -m venv /.venv", f"{pip} -e {root}[dev]"])
    assert setup("spark-queue", "status") == (0, [])
    assert setup("check") == (0, [])


def test_uv_is_used_where_it_is_there(setup: Setup, bootstrap: ModuleType) -> None:
    """With uv on the PATH the environment needs no pip."""
    assert setup("spark-submit", uv="/bin/uv") == (
        0,
        [
            "py -m venv --without-pip --clear /.venv",
            f"/bin/uv pip install --quiet --python /.venv/bin/python -e {bootstrap.ROOT}[spark]",
        ],
    )


def test_pip_takes_over_where_uv_fails(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    """What uv cannot reach, pip may: only when both fail the set-up has failed."""
    code, steps = setup("check", uv="/bin/uv", fails="/bin/uv")

    assert code == 0
    assert [step.split()[0] for step in steps] == ["py", "/bin/uv", "py", "/.venv/bin/python"]
    assert "no luck" not in capsys.readouterr().err


def test_failed_set_up_says_why_and_is_tried_again(
    setup: Setup, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output of the step that failed is shown, and the next command starts anew."""
    assert setup("check", fails="pip")[0] == 2
    said = capsys.readouterr().err
    assert "no luck" in said
    assert "is the package index reachable?" in said

    assert len(setup("check")[1]) == 2


def test_changed_project_is_installed_anew(
    setup: Setup, bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another pyproject.toml, or another interpreter, makes the environment from the start."""
    setup("check")
    monkeypatch.setattr(bootstrap, "_fingerprint", lambda: "another")

    assert setup("check")[1][0] == "py -m venv --clear /.venv"


def test_bytecode_is_made_where_no_import_keeps_it(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python writes it as it imports, unless told not to; then it is made once, at set-up."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    assert "--compile-bytecode" in setup("spark-queue", uv="/bin/uv")[1][1]
    assert "--no-compile" not in setup("pytest")[1][1]


@pytest.mark.parametrize("asked", [["--help"], ["check", "--help"], ["check", "--list"]])
def test_help_is_given_before_anything_is_installed(
    asked: list[str], bootstrap: ModuleType
) -> None:
    """Who asks what there is gets an answer, and no environment."""
    done = run_python(_FILE, *asked, env={"SPARK_QUEUE_VENV": str(bootstrap.VENV), "PATH": ""})

    assert (done.returncode, done.stderr) == (0, "")
    assert "check" in done.stdout
    assert not bootstrap.VENV.exists()
