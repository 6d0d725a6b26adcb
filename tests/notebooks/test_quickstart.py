from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks.conftest import Execute, Read


def test_quickstart_is_ten_cells_without_output(read: Read) -> None:
    """The notebook is stored as it was written, not as it last ran."""
    code = [cell for cell in read("quickstart").cells if cell.cell_type == "code"]

    assert len(code) == 10
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_quickstart_runs(read: Read, execute: Execute, tmp_path: Path) -> None:
    """Every cell runs, and what the text claims is asserted in it."""
    shown = execute(read("quickstart"), tmp_path)
    assert any("held by group" in str(out) for out in shown)
