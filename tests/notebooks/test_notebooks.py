"""Notebooks: each runs, and is stored with what its cells show."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.stored import NOTEBOOKS, code_of, read, run, scrub, texts

#: Signs of a text, and of a picture, that one output may have.
_MOST = {"text": 2_000, "image": 64 * 1024}

#: Calls at the end of a cell that return nothing; one is of a notebook itself.
_SILENT = {"spark.stop", "shutil.rmtree", "arrive"}

_each = pytest.mark.parametrize("name", NOTEBOOKS)


def _shows(source: str) -> bool:
    """Tell whether a cell prints, or ends in a value."""
    *_, last = ast.parse(source).body
    if re.search(r"\bprint\(|\.show\(", source):
        return True
    if not isinstance(last, ast.Expr):
        return False
    return not (isinstance(last.value, ast.Call) and ast.unparse(last.value.func) in _SILENT)


def _sizes(output: Mapping[str, Any]) -> Mapping[str, int]:
    forms = output.get("data") or {"text": output["text"]}
    return {kind.partition("/")[0]: len(text) for kind, text in forms.items()}


@_each
def test_each_cell_that_shows_something_is_stored_with_it(name: str) -> None:
    """A reader sees what it shows without running it; the cells are of one run, in their order."""
    cells = code_of(read(name))

    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert [bool(cell.outputs) for cell in cells] == [_shows(cell.source) for cell in cells]


@_each
def test_what_is_stored_is_small_and_is_no_complaint(name: str) -> None:
    """No error and no warning, and nothing that is too long to read."""
    outputs = [output for cell in code_of(read(name)) for output in cell.outputs]

    assert {output.output_type for output in outputs} <= {"stream", "execute_result"}
    assert "stderr" not in {output.get("name") for output in outputs}
    sizes = [size for output in outputs for size in _sizes(output).items()]
    assert [size for size in sizes if size[1] > _MOST[size[0]]] == []


@_each
def test_what_is_stored_tells_nothing_of_a_machine(name: str) -> None:
    """Paths, times and names that differ from run to run are the same for all."""
    notebook = read(name)

    assert all(scrub(one) == one for cell in code_of(notebook) for one in cell.outputs)
    assert not re.search(r"/(home|root|Users)/", "".join(text for _, text in texts(notebook)))
    assert all("execution" not in cell.metadata for cell in notebook.cells)


@_each
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_notebook_runs_and_shows_what_is_stored(name: str, tmp_path: Path) -> None:
    """Every cell runs, what the text claims is asserted in it, and its words are those stored."""
    ran, stored = (list(texts(one)) for one in (run(name, tmp_path), read(name)))

    # Seqs follow the order in which a file system lists files.
    assert [(kind, _with_one_number(text)) for kind, text in ran] == [
        (kind, _with_one_number(text)) for kind, text in stored
    ]


def _with_one_number(text: str) -> str:
    return re.sub(r"\d+", "1", text)
