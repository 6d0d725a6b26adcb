"""The stages of the gate, and what it says of them."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

_ROOT = Path(__file__).parents[3]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the script as a module, with two stages: one that ends well, and one that fails."""
    spec = importlib.util.spec_from_file_location("check", _ROOT / ".ci" / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "check", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "_TIMES", tmp_path)
    stages = (_stage(module, "fine", "print('3 passed')"), _stage(module, "bad", "exit('broken')"))
    monkeypatch.setattr(module, "GATE", (((stages[0],), (stages[1],)),))
    monkeypatch.setattr(module, "ALL", (*module.ALL, *module.GATE))
    return module


def _stage(module: ModuleType, name: str, program: str) -> object:
    return module.Check(name, (sys.executable, "-c", program))


def test_the_gate_names_tests_that_are_there() -> None:
    """A stage that names a file which is gone would run nothing, and fail only at its turn."""
    text = (_ROOT / ".ci" / "check.py").read_text("utf-8")
    named = re.findall(r'"(tests/[\w/.]+)"', text)
    assert named
    assert [path for path in named if not (_ROOT / path).exists()] == []


def test_a_stage_that_fails_ends_the_gate_with_its_code_and_how_to_repeat_it(
    check: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """All stages run; the output of the failed one is shown, and one command that repeats it."""
    assert check.main([]) == 1
    said = capsys.readouterr().out
    assert re.search(r"^ok +fine +[\d.]+ s$", said, re.MULTILINE)
    assert re.search(r"^FAILED +bad +[\d.]+ s$", said, re.MULTILINE)
    assert "broken" in said
    assert said.splitlines()[-1] == "to repeat it: python3 .ci/bootstrap.py check --only bad"


def test_one_stage_runs_alone(check: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """``--only`` runs the stage that it names; another name is refused with all that there are."""
    assert check.main(["--only", "fine"]) == 0
    assert "bad" not in capsys.readouterr().out
    with pytest.raises(SystemExit):
        check.main(["--only", "none"])
    assert "connect" in capsys.readouterr().err


def test_the_slowest_tests_are_shown_with_their_reasons(
    check: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten tests of all stages, the slowest first."""
    told = [[float(n), f"tests/test_a.py::test_{n}", "has a reason"] for n in range(12)]
    program = (
        f"open(__import__('os').environ['SPARK_QUEUE_TIMES'], 'w').write({json.dumps(told)!r})"
    )
    monkeypatch.setattr(check, "GATE", (((_stage(check, "timed", program),),),))
    assert check.main([]) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if "::" in line]
    assert len(shown) == 10
    assert shown[0] == "  11.0 s  tests/test_a.py::test_11  has a reason"


def test_everything_has_what_the_gate_has(check: ModuleType) -> None:
    """``--all`` runs each stage of the gate, and no stage twice."""
    names = check._names()
    assert len(names) == len({*names})
    for name in ("no-jvm", "spark", "alone", "connect", "shipped", "oldest", "newest", "thorough"):
        assert check.stage(name).name == name
