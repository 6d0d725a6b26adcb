"""The list of tests that cost much."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import tiers

_TEXT = """
# A comment.
all   tests/delta/test_chaos.py  kills drivers
slow  tests/test_long.py::test_all[a b]  waits for a lease
"""


@pytest.fixture
def told(tmp_path: Path) -> tiers.Tiers:
    """Return the lines of a list."""
    file = tmp_path / "tiers.txt"
    file.write_text(_TEXT)
    return tiers.read(file)


def _items(*names: str, laws: str = "Laws 1-11: all hold.") -> Any:
    """Make items of which the first is on Spark, and says that it is of some laws."""
    marks: dict[str, set[str]] = {name: set() for name in names}
    marks[names[0]].add("spark")
    return [
        SimpleNamespace(
            nodeid=name,
            obj=SimpleNamespace(__doc__=laws),
            add_marker=marks[name].add,
            get_closest_marker=lambda mark, name=name: mark if mark in marks[name] else None,
        )
        for name in names
    ]


def test_a_line_names_a_file_a_test_or_one_of_its_parameters(told: tiers.Tiers) -> None:
    """A line holds what is in its file or below its test, and nothing whose name begins alike."""
    chaos, long = told.lines
    assert chaos.holds("tests/delta/test_chaos.py::test_kill[2]")
    assert not chaos.holds("tests/delta/test_chaos.pyx::test_kill")
    assert long.holds("tests/test_long.py::test_all[a b]")
    assert not long.holds("tests/test_long.py::test_all[a]")
    assert tiers.reason("tests/test_long.py::test_all[a b]", told) == "waits for a lease"
    assert tiers.reason("tests/test_short.py::test_all", told) == ""


def test_a_line_may_name_one_parameter_of_several() -> None:
    """A star stands for any text, and all else for itself."""
    second = tiers.Tier("all", "tests/test_long.py::test_each[*-2?]", "`check` has the first")
    assert second.holds("tests/test_long.py::test_each[a b-2?]")
    assert not second.holds("tests/test_long.py::test_each[a b-1]")
    assert not second.holds("tests/test_long.py::test_each[a b-2x]")
    assert not second.holds("tests/test_long.py::test_each[a b-2?-1]")


def test_a_line_that_is_no_tier_test_and_reason_is_refused(tmp_path: Path) -> None:
    """A test cannot be left out without a reason."""
    for line in ("all  tests/test_a.py", "some  tests/test_a.py  why"):
        (tmp_path / "bad.txt").write_text(line)
        with pytest.raises(pytest.UsageError, match="no tier, test and reason"):
            tiers.read(tmp_path / "bad.txt")


def test_what_is_left_out_is_marked_and_limited(told: tiers.Tiers) -> None:
    """A line that names no test ends the run, and so does more than a tenth of all tests."""
    long = "tests/test_long.py::test_all[a b]"
    chaos = [f"tests/delta/test_chaos.py::test_{n}" for n in range(2)]
    others = [f"tests/test_short.py::test_{n}" for n in range(20)]
    few, many = _items(long, chaos[0], *others), _items(long, *chaos, *others[:10])
    for items in (few, many):
        tiers.mark(items, told)
    assert [i.nodeid for i in few if i.get_closest_marker("thorough")] == chaos[:1]
    tiers.require_sound(few, told)
    with pytest.raises(pytest.UsageError, match="leaves out 2 of 13 tests"):
        tiers.require_sound(many, told)
    with pytest.raises(pytest.UsageError, match=r"names no test by tests/test_long\.py"):
        tiers.require_sound(_items(*chaos, *others), told)


def test_a_test_that_starts_spark_stands_where_its_stage_looks(told: tiers.Tiers) -> None:
    """One among the units, which no stage with Spark collects, ends the run."""
    long, chaos = "tests/test_long.py::test_all[a b]", "tests/delta/test_chaos.py::test_kill"
    items = _items("tests/unit/test_short.py::test_it", long, chaos)
    tiers.mark(items[:2], told)
    with pytest.raises(pytest.UsageError, match=r"starts no Spark for tests/unit/test_short\.py"):
        tiers.require_sound(items, told)


def test_a_law_that_is_left_out_on_spark_ends_the_run(told: tiers.Tiers) -> None:
    """Each law of the guarantees stays in at least one test on Spark that is not left out."""
    names = (
        "tests/test_long.py::test_all[a b]",
        *(f"tests/test_short.py::test_{n}" for n in range(9)),
    )
    chaos = "tests/delta/test_chaos.py::test_kill"
    for items in (
        _items(*names, chaos, laws="Laws 1, 2 and 4-9: all but one."),
        _items(chaos, *names),
    ):
        tiers.mark(items, told)
        with pytest.raises(pytest.UsageError, match=r"check leaves out laws \[.*3"):
            tiers.require_sound(items, told)
