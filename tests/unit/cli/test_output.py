from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_queue.cli import words
from spark_queue.cli.display import Display
from spark_queue.cli.scope import Scope
from spark_queue.cli.words import plain, rows


@dataclass(frozen=True)
class _Result:
    at: datetime
    held: timedelta
    by_state: dict[int, tuple[int, ...]]
    cost: Decimal


def _row(*values: object) -> Any:
    return Row(*values)


class _Frame:
    """A frame of one row, as far as a command is concerned."""

    def __init__(self, row: Any, schema: StructType) -> None:
        self.row, self.schema = row, schema

    def collect(self) -> list[Any]:
        """Return the row."""
        return [self.row]


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
    """A frame in a result is a list of objects, nested ones included."""
    inner = StructType([StructField("b", ArrayType(LongType()))])
    schema = StructType([StructField("a", LongType()), StructField("nested", inner)])

    assert plain({"per_key": _Frame(_row(1, _row([2, None])), schema)}) == {
        "per_key": [{"a": 1, "nested": {"b": [2, None]}}]
    }


@pytest.mark.usefixtures("new_york")
def test_times_of_frames_have_their_offset() -> None:
    """An instant is printed in UTC with its offset, wherever this process is, at any depth.

    A time of the wall is no instant: it has no offset to print.
    """
    at = datetime(2026, 7, 1, 12, 21, tzinfo=timezone.utc)
    here = at.astimezone().replace(tzinfo=None)
    # As Spark does, which marks the second of two equal times.
    twice = datetime.fromtimestamp(1793514600)  # noqa: DTZ006
    inner = StructType([StructField("at", TimestampType())])
    schema = StructType(
        [
            StructField("at", TimestampType()),
            StructField("again", TimestampType()),
            StructField("wall", TimestampNTZType()),
            StructField("nested", MapType(StringType(), ArrayType(inner))),
            StructField("none", TimestampType()),
        ]
    )

    (row,) = rows(_Frame(_row(here, twice, here, {"k": [_row(here)]}, None), schema))

    assert here.hour == 8
    assert row == {
        "at": "2026-07-01T12:21:00+00:00",
        # The second of the two half past one of that night.
        "again": "2026-11-01T06:30:00+00:00",
        "wall": "2026-07-01T08:21:00",
        "nested": {"k": [{"at": "2026-07-01T12:21:00+00:00"}]},
        "none": None,
    }
    assert words.instant(row["at"]) == "2026-07-01 12:21:00Z"


def test_numbers_that_json_lacks_are_texts() -> None:
    """What is no number prints as text, so that the object stays one."""
    assert json.dumps(plain({"a": float("nan"), "b": float("inf")})) == '{"a": "nan", "b": "inf"}'


def test_result_without_a_table_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """The fields of a result are shown where a command has no table of its own."""
    Display().show({"state": "[red]ready", "count": 1_234, "ratio": 0.5, "none": None})

    out = capsys.readouterr().out
    # The text of an item is no markup.
    assert "[red]ready" in out
    assert "1,234" in out


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

    scope = Scope(Display(), lambda _verbose: _Session(catalog))  # type: ignore[arg-type,return-value]

    assert scope.locate(name) == meant.format(here=tmp_path)
