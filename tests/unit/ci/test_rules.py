from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

_SCRIPT = Path(__file__).parents[3] / ".ci" / "rules.py"

_RULES = '''
"""Rules of a queue."""

NOTE = "# rule: no comment"

class State:
    # rule: room of a claim, order of service
    @property
    def room(self):
        def inner():
            # rule again: room of a claim
            return 1

# rule again: order of service
LIMIT = 3
'''

_SQL = "-- Of claims.\n\n-- first(seq)\n-- Items in order.\n-- rule: order of service\nSELECT 1\n"

_LAW = '''
# rule: room of a claim
# rule: order of service
@needs("rooms")
def test_room():
    """There is room."""
'''


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the script, over a small project of its own."""
    spec = importlib.util.spec_from_file_location("rules", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "rules", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "REGISTRY", tmp_path / "rules.json")
    _write(tmp_path, "spark_queue/state.py", _RULES)
    _write(tmp_path, "spark_queue/texts/claim.sql", _SQL)
    _write(tmp_path, "tests/test_state.py", _LAW)
    _write(tmp_path, "docs/adr/0003-turns.md", "# 3. Turns\n")
    room = {"says": "There is room.", "adr": 3, "sets": False}
    order = {"says": "There is an order.", "adr": 3, "sets": True}
    registry = {"Claims": {"room of a claim": room, "order of service": order}}
    _write(tmp_path, "rules.json", json.dumps(registry))
    return module


def _write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _replace(root: Path, path: str, old: str, new: str) -> None:
    text = (root / path).read_text(encoding="utf-8")
    assert old in text
    _write(root, path, text.replace(old, new))


def test_the_page_lists_places_and_laws(rules: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A marker names the definition below it, or around it; a text that is no comment is none."""
    assert rules.main(["--write"]) == 0
    page = (rules.ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert page.endswith(
        """
2 rules stand in 5 places, 2.5 each; 2 of the places say a rule again.

## Claims

### Room of a claim

There is room. ([ADR 3](adr/0003-turns.md))

- Python: `state.py` `State.room`
- Again: `state.py` `State.room.inner`
- Laws: `test_state.py` `test_room`

### Order of service

There is an order. ([ADR 3](adr/0003-turns.md))

- Python: `state.py` `State.room`
- SQL: `texts/claim.sql` `first`
- Again: `state.py` `LIMIT`
- Laws: `test_state.py` `test_room`
"""
    )
    assert "order of service               3 places" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("path", "old", "new", "fault"),
    [
        (
            "spark_queue/state.py",
            "rule: room of a claim,",
            "rule: rooms of a claim,",
            "spark_queue/state.py:7: rule 'rooms of a claim' is not in .ci/rules.json",
        ),
        (
            "spark_queue/state.py",
            "\nLIMIT = 3\n",
            "\nprint()\n",
            "spark_queue/state.py:14: rule 'order of service' marks nothing",
        ),
        (
            "spark_queue/state.py",
            "rule: room of a claim,",
            "rule:",
            "rule 'room of a claim' has no place in Python",
        ),
        (
            "spark_queue/texts/claim.sql",
            "-- rule:",
            "-- rules:",
            "rule 'order of service' has no place in SQL",
        ),
        (
            "tests/test_state.py",
            "# rule: room of a claim\n",
            "",
            "rule 'room of a claim' has no law: mark a test",
        ),
        (
            "rules.json",
            '"There is room.", "adr": 3',
            '"There is room.", "adr": 4',
            "rule 'room of a claim' names ADR 4, which is not in docs/adr",
        ),
    ],
)
def test_a_marker_that_leads_nowhere_and_a_rule_that_lacks_something_fail(
    rules: Any,
    capsys: pytest.CaptureFixture[str],
    path: str,
    old: str,
    new: str,
    fault: str,
) -> None:
    """Each fault has a line that names the rule, what is wrong and what is to be done."""
    _replace(rules.ROOT, path, old, new)
    assert rules.main(["--write"]) == 1
    assert f"\n{fault}" in capsys.readouterr().out


def test_a_page_that_is_stale_fails(rules: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A page that is missing, or that shows former places, is to be made again."""
    assert rules.main([]) == 1
    assert rules.main(["--write"]) == 0
    assert rules.main([]) == 0
    _replace(rules.ROOT, "spark_queue/state.py", "def room", "def space")
    assert rules.main([]) == 1
    assert "docs/rules.md is stale" in capsys.readouterr().out
    assert rules.main(["--read"]) == 2
