"""Runs a notebook as a user would, in its folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"

#: Returns a notebook as it is stored.
Read = Callable[[str], nbformat.NotebookNode]

#: Runs a notebook in a folder, and returns what its cells showed.
Execute = Callable[[nbformat.NotebookNode, Path], list[Any]]


@pytest.fixture
def read() -> Read:
    """Read a notebook by its name."""

    def reading(name: str) -> nbformat.NotebookNode:
        text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
        return nbformat.reads(text, as_version=4)  # type: ignore[no-any-return,no-untyped-call]

    return reading


@pytest.fixture
def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Execute:
    """Run all cells; an error of a cell is an error of the test."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    monkeypatch.setenv("PATH", path)

    def executing(notebook: nbformat.NotebookNode, folder: Path) -> list[Any]:
        client = NotebookClient(notebook, timeout=300, kernel_name="python3")
        done = client.execute(cwd=str(folder))
        shown = [out for cell in done.cells for out in cell.get("outputs", [])]
        assert not [out for out in shown if out.output_type == "error"]
        return shown

    return executing
