"""Which lanes of the gate find a fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Import = Callable[[str], Any]

SOURCE = """
LIMIT = 3

def first(values):
    return min(values)

class Heap:
    def top(self, values):
        return [value for value in values if value < LIMIT]
"""


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    """Return a module that was imported from a file."""
    file = tmp_path / "heap.py"
    file.write_text(SOURCE)
    made = ModuleType("heap")
    exec(compile(SOURCE, str(file), "exec"), vars(made))  # noqa: S102 - the source above
    made.__file__ = str(file)
    return made


def test_functions_run_another_source_until_it_is_put_back(
    script: Import, module: ModuleType
) -> None:
    """Whoever holds a function, or a method, calls the new code; then the old one again."""
    swap, first, top = script("swap"), module.first, module.Heap().top
    new = SOURCE.replace("min(", "max(").replace("value < LIMIT", "value > LIMIT")
    restore = swap.swap(module.__file__, SOURCE, f"# A line more.\n{new}")
    assert (first([1, 2]), top([1, 5])) == (2, [5])
    restore()
    assert (first([1, 2]), top([1, 5])) == (1, [1])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("class Heap:", "class Heap:\n    size = 1"),
        ("def top", "def up"),
    ],
)
def test_what_runs_at_the_import_needs_a_new_process(
    script: Import, module: ModuleType, old: str, new: str
) -> None:
    """Statements of a module or a class have run: nothing is replaced, and it is said."""
    swap = script("swap")
    with pytest.raises(swap.ColdError):
        swap.swap(module.__file__, SOURCE, SOURCE.replace(old, new))
    assert module.first([1, 2]) == 1


def test_tests_that_reach_a_change_are_tried_quick_ones_first(script: Import) -> None:
    """A test that reaches no changed line is not run, nor one that is beyond the budget."""
    lanes, mutants = script("lanes"), script("mutants")
    (fault,) = mutants.read("@ rules/heap: the largest comes first\n-a = 1\n+a = 2\n")
    old, new = "x = 1\ny = 2\nz = 3\na = 1\n", "x = 1\ny = 2\nz = 3\na = 2\n"
    tests = {
        name: {"test": name, "seconds": seconds, "views": [], "lines": {"rules/heap.py": lines}}
        for name, seconds, lines in (("slow", 9.0, [4]), ("quick", 1.0, [4]), ("other", 0.1, [1]))
    }
    reaching = lanes._reaching(fault, old, new, tests)
    assert [test["test"] for test in reaching] == ["quick", "slow"]
    assert list(lanes._within(5.0, reaching)) == ["quick"]
    assert list(lanes._within(0.5, reaching)) == ["quick"]


def test_a_view_of_sql_is_reached_by_those_that_ask_it(script: Import) -> None:
    """SQL has no lines that are counted: its statements say which views they are made of."""
    lanes, mutants = script("lanes"), script("mutants")
    (fault,) = mutants.read("@ sql/texts/claim.sql: no room\n-SELECT 1\n+SELECT 0\n")
    old = "-- first(n)\nSELECT 2\n\n-- room(n)\n-- How many.\nSELECT 1\n"
    tests = {
        name: {"test": name, "seconds": 1.0, "views": views, "lines": {}}
        for name, views in (("asks", ["room", "first"]), ("other", ["first"]))
    }
    assert [test["test"] for test in lanes._reaching(fault, old, "", tests)] == ["asks"]


def test_a_lane_is_a_stage_of_the_gate(script: Import) -> None:
    """Its command and its environment are those of the gate, and stand there alone."""
    lane = script("lanes").stage("connect")
    assert "tests/conformance" in lane.command
    assert lane.env["SPARK_QUEUE_REMOTE"]
