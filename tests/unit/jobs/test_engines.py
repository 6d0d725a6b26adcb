"""The job that asks other engines about tables of queues, and the table in its document."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

_ROOT = Path(__file__).parents[3]


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the job from where it lies."""
    monkeypatch.syspath_prepend(str(_ROOT / "jobs"))
    return import_module("engines")


def test_the_document_has_what_came_of_each_engine(engines: Any) -> None:
    """The table is that of the last run, with each engine in it."""
    results = engines.kept()
    assert results.keys() == engines.ENGINES.keys()
    assert engines.table(results) in (_ROOT / "docs" / "engines.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        (pa.array([float("nan"), -0.0]), None),
        (pa.array([-0.0, float("nan")]), None),
        (pa.array([float("nan"), 0.0]), "wrong"),
        (pa.array([float("nan")]), "wrong"),
        (pa.array(["nan", "zero"]), "wrong"),
        ("DaftTypeError: no", "refused"),
    ],
)
def test_rows_are_right_in_any_order_and_by_each_value(
    engines: Any, values: pa.Array | str, fault: str | None
) -> None:
    """Zeros differ by their sign, NaN equals itself, and what does not fit a type is wrong."""
    right = pa.table({"x": [float("nan"), -0.0]})
    assert (
        engines.judge(right, values if isinstance(values, str) else _sent({"x": values})) == fault
    )


def test_each_table_of_a_queue_is_asked_about(engines: Any, tmp_path: Path) -> None:
    """Each kind of table is there, with rows that some question finds."""
    tables = engines.make_tables(tmp_path)
    asked = list(engines.questions(tables))
    rows = {name: engines.rows_of(path) for name, path in tables.items()}
    found = {one.table for one in asked if engines.right_rows(rows[one.table], one).num_rows}
    assert found == {"items", "status", "output", "journal", "archive"}


def _sent(columns: dict[str, pa.Array]) -> bytes:
    """Return rows as an engine's process sends them."""
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
