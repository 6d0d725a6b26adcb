from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest

from spark_queue.cli.place import placed
from spark_queue.cli.plain import plain
from spark_queue.cli.terminal import Terminal, rows_table


@dataclass(frozen=True)
class _Result:
    at: datetime
    held: timedelta
    by_state: dict[int, tuple[int, ...]]
    cost: Decimal


class _Frame:
    """A frame of one row, as far as a command is concerned."""

    def collect(self) -> list[_Frame]:
        """Return the row."""
        return [self]

    def asDict(self, *, recursive: bool) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Return its fields."""
        return {"a": 1, "nested": {"recursive": recursive}}


def test_results_become_plain_data() -> None:
    """Times, durations and nested results have a form that JSON can hold."""
    at = datetime(2026, 1, 2, tzinfo=timezone.utc)

    data = plain(_Result(at, timedelta(minutes=1), {1: (2, 3)}, Decimal("1.5")))

    assert data == {
        "at": "2026-01-02T00:00:00+00:00",
        "held": 60.0,
        "by_state": {"1": [2, 3]},
        "cost": "1.5",
    }
    assert json.loads(json.dumps(data)) == data


def test_frames_become_their_rows() -> None:
    """A frame in a result is a list of objects."""
    assert plain({"per_key": _Frame()}) == {"per_key": [{"a": 1, "nested": {"recursive": True}}]}


def test_result_without_a_table_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """The fields of a result are shown where a command has no table of its own."""
    Terminal().show({"state": "[red]ready", "count": 1_234, "ratio": 0.5, "none": None})

    out = capsys.readouterr().out
    # The text of an item is no markup.
    assert "[red]ready" in out
    assert "1,234" in out


def test_empty_columns_are_left_out() -> None:
    """A column without a value tells nobody anything."""
    table = rows_table([{"a": 1, "b": None}, {"a": 2, "b": None}])

    assert [column.header for column in table.columns] == ["a"]


def test_no_rows_is_a_table_too() -> None:
    """Nothing to show is no error."""
    assert rows_table([]).row_count == 0


class _Session:
    """A session with a kind of catalog."""

    def __init__(self, catalog: str) -> None:
        self.conf = {"spark.sql.catalogImplementation": catalog}


@pytest.mark.parametrize(
    ("catalog", "name", "meant"),
    [
        ("hive", "files", "files"),
        ("hive", "lake.ops.files", "lake.ops.files"),
        ("in-memory", "files", "{here}/files"),
        ("hive", "./q/", "{here}/q"),
        ("hive", "/q", "/q"),
        ("in-memory", "s3a://bucket/q", "s3a://bucket/q"),
    ],
)
def test_name_is_a_table_where_tables_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: str, catalog: str, name: str, meant: str
) -> None:
    """A plain name is a table, or a path here where the catalog ends with the process."""
    monkeypatch.chdir(tmp_path)

    found = placed(_Session(catalog), name)  # type: ignore[arg-type]

    assert found == meant.format(here=tmp_path)
