from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[3]


def test_the_gate_names_tests_that_are_there() -> None:
    """A stage that names a file which is gone would run nothing, and fail only at its turn."""
    text = (_ROOT / ".ci" / "check.py").read_text("utf-8")
    named = re.findall(r'"(tests/[\w/.]+)"', text)
    assert named
    assert [path for path in named if not (_ROOT / path).exists()] == []
