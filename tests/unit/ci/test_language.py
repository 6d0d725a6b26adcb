from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

_SCRIPT = Path(__file__).parents[3] / ".ci" / "language.py"

_MODULE = '''
"""Which way: whoever asks, asks anew."""

def _decided(): ...
def made(): ...
def feed(): ...
def settle_claim(): ...

class Plan:
    @property
    def known(self): ...

    async def told(self):
        """Save for later, and in nobody's name."""
'''


@pytest.fixture
def language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the script, over a small project of its own."""
    spec = importlib.util.spec_from_file_location("language", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "ALLOWANCES", tmp_path / "language.json")
    for place in ("spark_queue/a/plan.py", "spark_queue/b/plan.py"):
        file = tmp_path / place
        file.parent.mkdir(parents=True)
        file.write_text(_MODULE if "/a/" in place else '"""Plan of a step."""\n')
    (tmp_path / "README.md").write_text("Plain.\nWhatever is said, and whatever is not.\n")
    return module


def _allow(language: Any, **counts: int) -> None:
    none = dict.fromkeys(("participles", "openings", "words", "lengths", "modules", "classes"), 0)
    language.ALLOWANCES.write_text(json.dumps(none | counts))


def test_long_modules_are_found(language: Any) -> None:
    """A module has 400 lines at most."""
    for lines in (400, 401):
        (language.ROOT / f"spark_queue/long{lines}.py").write_text("#\n" * lines)
    assert language.findings(language.ROOT)["lengths"] == ["spark_queue/long401.py: 401 lines"]


def test_habits_are_found_where_they_are(language: Any) -> None:
    """Verbs and properties are no participles; words are found in docstrings and documents."""
    found = language.findings(language.ROOT)
    plan = "spark_queue/a/plan.py"
    assert found["participles"] == [f"{plan}:4: _decided", f"{plan}:5: made", f"{plan}:13: told"]
    assert found["openings"] == [f"{plan}: Which way: whoever asks, asks anew."]
    assert [line.split(": ")[1].lower() for line in found["words"]] == [
        *("whoever", "anew", "save for", "in nobody's name", "whatever", "whatever")
    ]
    assert found["words"][-1] == "README.md:2: whatever"
    assert found["modules"] == ["plan: 2 times"]
    assert found["classes"] == []


def test_a_figure_above_its_allowance_fails(
    language: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below or at its allowance a figure passes; above, the figure is named."""
    _allow(language, participles=3, openings=9, words=6, modules=1)
    assert language.main([]) == 0
    _allow(language, participles=2, openings=9, words=6, modules=1)
    assert language.main([]) == 1
    assert "too many participles" in capsys.readouterr().out


def test_allowances_only_go_down(language: Any) -> None:
    """``--lower`` takes an allowance down to its count, and never up."""
    _allow(language, participles=2, openings=9, words=6, modules=1)
    assert language.main(["--lower"]) == 1
    assert json.loads(language.ALLOWANCES.read_text()) == {
        "participles": 2,
        "openings": 1,
        "words": 6,
        "lengths": 0,
        "modules": 1,
        "classes": 0,
    }
    assert language.main(["--list", "words"]) == 0
    assert language.main(["--raise"]) == 2
