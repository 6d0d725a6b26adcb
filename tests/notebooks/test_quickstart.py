from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

_NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "quickstart.ipynb"


@pytest.fixture
def notebook() -> nbformat.NotebookNode:
    """Read the notebook."""
    return nbformat.reads(_NOTEBOOK.read_text(encoding="utf-8"), as_version=4)  # type: ignore[no-any-return,no-untyped-call]


def test_quickstart_is_ten_cells_without_output(notebook: nbformat.NotebookNode) -> None:
    """The notebook is stored as it was written, not as it last ran."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]

    assert len(code) == 10
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_quickstart_runs(
    notebook: nbformat.NotebookNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every cell runs, and what the text claims is asserted in it."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    monkeypatch.setenv("PATH", path)

    done = NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path))

    shown = [out for cell in done.cells for out in cell.get("outputs", [])]
    assert not [out for out in shown if out.output_type == "error"]
    assert any("held by group" in str(out) for out in shown)
