from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

Import = Callable[[str], Any]

TEXT = """
! SPARK_QUEUE_SESSION=planned

@ rules/heap: the largest comes first
 def first(self):
-    return min(self)
+    return max(self)

@ spark/fold: nothing is read
= tests/conformance/test_laws.py
-    return rows
+    return rows.limit(0)
"""

MODULE = "def first(self):\n    return min(self)\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a tree with one module."""
    module = tmp_path / "spark_queue/rules/heap.py"
    module.parent.mkdir(parents=True)
    module.write_text(MODULE)
    return module


def test_faults_are_read_as_diffs(script: Import) -> None:
    """A fault has lines to find and lines to put there, and the tests of its area or its own."""
    mutants = script("mutants")
    heap, fold = mutants.read(TEXT)
    assert (heap.where, heap.says) == ("rules/heap", "the largest comes first")
    assert heap.old == MODULE
    assert heap.new == MODULE.replace("min", "max")
    assert heap.tests[0] == "tests/unit/rules"
    assert [one.needs_jvm for one in mutants.read(TEXT.partition("planned")[2])] == [False, False]
    assert (fold.tests, fold.needs_jvm) == (("tests/conformance/test_laws.py",), True)


def test_the_faults_of_a_file_may_share_an_environment(script: Import) -> None:
    """What stands above the first fault holds for all of them, and for none of another file."""
    mutants = script("mutants")
    planned = {"SPARK_QUEUE_SESSION": "planned"}
    assert [fault.env for fault in mutants.read(TEXT)] == [planned, planned]
    assert [fault.env for fault in mutants.read(TEXT.partition("planned")[2])] == [{}, {}]


def test_every_fault_that_is_kept_can_be_tried(script: Import) -> None:
    """Each says what is wrong, changes something, and has tests that are there."""
    mutants = script("mutants")
    files = sorted((Path(mutants.__file__).parent / "faults").glob("*.txt"))
    faults = [fault for file in files for fault in mutants.read(file.read_text())]
    assert len({(fault.where, fault.says) for fault in faults}) == len(faults) > 100
    for fault in faults:
        assert fault.says
        assert fault.old != fault.new
        assert fault.tests
        assert all((mutants.ROOT / test.partition("::")[0]).exists() for test in fault.tests)


def test_every_fault_that_is_kept_applies_to_the_code(script: Import) -> None:
    """Its lines stand in its module, just once: who changes them changes the fault, too."""
    mutants = script("mutants")
    files = sorted((Path(mutants.__file__).parent / "faults").glob("*.txt"))
    stale = [
        f"{file.name}: {fault.where}: {fault.says}"
        for file in files
        for fault in mutants.read(file.read_text())
        if mutants.place_of(mutants.ROOT, fault) is None
    ]
    assert not stale, "\n".join(stale)


@pytest.mark.parametrize(
    ("code", "said", "verdict", "by"),
    [
        (0, "3 passed", "survived", "tests/unit/rules"),
        (1, "FAILED tests/test_heap.py::test_order - assert 1 == 2", "found", "test_order"),
        (4, "ERROR: file or directory not found", "broken", "not found"),
    ],
)
def test_a_fault_is_in_the_tree_while_its_tests_run(
    script: Import,
    monkeypatch: pytest.MonkeyPatch,
    tree: Path,
    code: int,
    said: str,
    verdict: str,
    by: str,
) -> None:
    """The module is broken, in its environment, while pytest runs, and whole again afterwards."""
    mutants = script("mutants")
    seen: list[str] = []

    def run(words: list[str], *, env: dict[str, str], **_: object) -> object:
        assert "tests/unit/rules" in words
        assert env["SPARK_QUEUE_SESSION"] == "planned"
        seen.append(tree.read_text())
        return SimpleNamespace(returncode=code, stdout=said, stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    heap = mutants.read(TEXT)[0]
    outcome = mutants.tried(tree.parents[2], heap, 1.0)
    assert seen == [MODULE.replace("min", "max")]
    assert tree.read_text() == MODULE
    assert (outcome.verdict, by in outcome.by) == (verdict, True)


@pytest.mark.parametrize(("code", "fails"), [(0, []), (1, ["test_order", "test_order"])])
def test_tests_that_fail_of_themselves_find_nothing(
    script: Import, monkeypatch: pytest.MonkeyPatch, tree: Path, code: int, fails: list[str]
) -> None:
    """The tests of each area run once in the whole tree, and those that fail there are named."""
    mutants = script("mutants")
    seen: list[str] = []

    def run(_words: list[str], **_: object) -> object:
        seen.append(tree.read_text())
        return SimpleNamespace(returncode=code, stdout="FAILED test_order - assert 0", stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    heap, fold = mutants.read(TEXT)
    assert list(mutants.fails_unbroken(tree.parents[2], [heap, heap, fold], 1.0)) == fails
    assert seen == [MODULE, MODULE]


def test_a_fault_whose_lines_are_gone_is_stale(script: Import, tree: Path) -> None:
    """Nothing is run for a fault that is no more in the code, or there twice."""
    mutants = script("mutants")
    heap = mutants.read(TEXT)[0]
    for text in ("", MODULE + MODULE):
        tree.write_text(text)
        assert mutants.tried(tree.parents[2], heap, 1.0).verdict == "stale"
