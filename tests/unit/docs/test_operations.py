"""The operations guide prints what its commands print, and names all that the doctor finds."""

from __future__ import annotations

import re
from pathlib import Path

from spark_queue.doctor.examine import CHECKS
from tests.unit.docs import operated


def test_commands_of_the_guide_print_what_stands_below_them(tmp_path: Path) -> None:
    """Each command is run, one after the other, on the queue of that night, at its time."""
    page = operated.PAGE.read_text(encoding="utf-8")

    assert page.count("\n$ spark-queue ") > 15
    assert operated.answered(page, tmp_path) == page


def test_the_guide_names_all_findings() -> None:
    """Its table has a row for each check, in words that somebody can look for."""
    page = operated.PAGE.read_text(encoding="utf-8")

    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == set(CHECKS)
