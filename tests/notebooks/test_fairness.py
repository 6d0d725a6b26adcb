from __future__ import annotations

import pytest

from tests.notebooks.conftest import FOLDER, Execute, Read


def test_fairness_is_stored_without_output(read: Read) -> None:
    """The notebook is stored as it was written, not as it last ran."""
    code = [cell for cell in read("fairness").cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fairness_runs(read: Read, execute: Execute) -> None:
    """Every cell runs, what the text claims is asserted in it, and the pictures are drawn."""
    shown = execute(read("fairness"), FOLDER)
    pictures = [out for out in shown if "image/png" in out.get("data", {})]
    assert len(pictures) == 2
