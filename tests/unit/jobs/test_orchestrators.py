"""The job that plays programs with orchestrators, and the page that shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[3]


@pytest.fixture
def orchestrators(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the job from where it lies."""
    monkeypatch.syspath_prepend(str(_ROOT / "jobs"))
    return import_module("orchestrators")


def test_the_page_has_what_was_played_with_each(orchestrators: Any) -> None:
    """The table is that of the last run, of the versions that are named, and each part held."""
    results = orchestrators.kept(orchestrators.RESULTS)
    assert [*results] == orchestrators.versions()
    assert {word for outcomes in results.values() for word in outcomes.values()} == {"yes"}
    assert orchestrators.table(results) in orchestrators.PAGE.read_text("utf-8")


def test_the_page_shows_each_program_as_it_is_played(orchestrators: Any) -> None:
    """A block with a title is that file, whole, and no program is without one."""
    page = orchestrators.PAGE.read_text("utf-8")
    blocks = re.findall(r'```\w+ title="([^"]+)"\n(.*?)```', page, re.DOTALL)
    files = [file for file in orchestrators.PROGRAMS.rglob("*.*") if file.suffix != ".pyc"]
    names = {str(file.relative_to(orchestrators.PROGRAMS)) for file in files}
    assert {name for name, _ in blocks} == {n for n in names if not n.startswith("plays/")}
    for name, text in blocks:
        assert (orchestrators.PROGRAMS / name).read_text("utf-8") == text, name


def test_what_failed_is_no_part_that_held(orchestrators: Any) -> None:
    """A part that failed says so in the table, without its reason."""
    results = {"dagster 1.2.3": {"a sensor": "failed: TimeoutError: a run: not in 240 s"}}
    assert orchestrators.table(results).splitlines()[2] == "| dagster 1.2.3 | a sensor | failed |"
