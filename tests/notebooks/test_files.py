from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks.conftest import Execute, Read


def test_files_is_without_output(read: Read) -> None:
    """The notebook is stored as it was written, not as it last ran."""
    code = [cell for cell in read("files").cells if cell.cell_type == "code"]

    assert len(code) == 8
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_files_runs(read: Read, execute: Execute, tmp_path: Path) -> None:
    """Every cell runs, and what the text claims is asserted in it."""
    shown = execute(read("files"), tmp_path)
    assert any("Expecting value" in str(out) for out in shown)
