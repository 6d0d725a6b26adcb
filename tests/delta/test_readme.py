from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_README = (_ROOT / "README.md").read_text(encoding="utf-8")


def test_test_command_of_the_readme_is_what_ci_runs() -> None:
    """CI runs the line that the README tells a reader to run."""
    lines = re.findall(r"^python3 \.ci/bootstrap\.py .*$", _README, re.MULTILINE)
    script = (_ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()

    assert len(lines) == 2
    assert script[-1] == f"exec {lines[1]}"


def test_readme_is_short_and_its_links_lead_somewhere() -> None:
    """The README has at most 205 lines, and every file that it links or shows is there."""
    links = re.findall(r"\]\(((?!http)[^)]+)\)", _README)

    assert len(_README.splitlines()) <= 205
    assert [link for link in links if not (_ROOT / link).exists()] == []
