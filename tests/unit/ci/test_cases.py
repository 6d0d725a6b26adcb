from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

_SCRIPT = Path(__file__).parents[3] / ".ci" / "cases.py"


@pytest.fixture
def cases() -> Any:
    """Import the script that counts the cases."""
    spec = importlib.util.spec_from_file_location("cases", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_ids_are_read_from_names_docstrings_and_parameters(cases: Any) -> None:
    """Tests cite cases in three places; ranges count, and what is no test does not."""
    source = '''
def test_dq_03_failure():
    """Also SU-01..03 and QB-9, XX-01."""

@pytest.mark.parametrize("x", [pytest.param(1, id="BQ-24")])
async def test_parameters():
    pass

class TestMore:
    def test_inside(self):
        """IS-15."""

def helper():
    """FQ-01 is not cited by a helper."""
'''
    found = set(cases.citations(source))
    assert found == {"DQ-03", "SU-01", "SU-02", "SU-03", "BQ-24", "IS-15"}


def test_gaps_in_the_numbers_are_not_owed(cases: Any) -> None:
    """A family is owed from 1 to its last number, without those that no case ever had."""
    owed = cases.owed()
    assert owed[:2] == ["FQ-01", "FQ-02"]
    assert [case for case in owed if case.startswith("QB")][29:32] == ["QB-30", "QB-40", "QB-41"]
    assert len(owed) == sum(count for count, _ in cases.OWED.values()) - len(cases.UNUSED)


def test_missing_and_unknown_cases_are_told(
    cases: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code says whether all is cited and nothing else; the lines say what is not."""
    monkeypatch.setattr(cases, "ROOT", tmp_path)
    monkeypatch.setattr(cases, "OWED", {"WQ": (2, "line of waiters")})
    test = tmp_path / "tests" / "test_line.py"
    test.parent.mkdir()
    for text, code, line in [
        ("WQ-02", 1, "no test: WQ-01"),
        ("WQ-01..03", 1, "not known: WQ-03"),
        ("WQ-01, WQ-02", 0, "2 of 2"),
    ]:
        test.write_text(f'def test_a():\n    """{text}"""\n')
        assert cases.main() == code
        assert line in capsys.readouterr().out


def test_a_missing_case_is_told_by_its_words(
    cases: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a family has words, each of its cases has, and no number without them is owed."""
    assert set(cases.TOLD) == {case for case in cases.owed() if case.startswith("FC")}
    monkeypatch.setattr(cases, "ROOT", tmp_path)
    monkeypatch.setattr(cases, "OWED", {"FC": (1, "flow control by key")})
    assert cases.main() == 1
    assert "no test: FC-01 (a full key is passed" in capsys.readouterr().out
