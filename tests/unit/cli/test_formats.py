"""Formats by the names of files, and values that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_queue.cli.choice import Format, format_of, misfits
from spark_queue.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ("orders.csv", Format.CSV),
        ("/data/2026.11/*.JSONL", Format.JSON),
        ("s3a://bucket/a.ndjson.gz", Format.JSON),
        ("part-0.snappy.parquet", Format.PARQUET),
    ],
)
def test_a_name_tells_its_format(files: str, kind: Format) -> None:
    """The end of a name is its format, behind how it is compressed."""
    assert format_of(files) is kind


@pytest.mark.parametrize("files", ["orders", "orders.gz", "orders.xlsx", "orders.csv.d/*"])
def test_a_name_that_does_not_tell_is_refused(files: str) -> None:
    """Where no format can be seen, it is asked for."""
    with pytest.raises(InvalidArgumentError, match="tell of no format; say --format csv"):
        format_of(files)


def test_a_directory_is_what_its_files_are(tmp_path: Path) -> None:
    """Files of one format tell that of their directory; marks beside them say nothing."""
    for name in ("part-0.csv", "part-1.csv.gz", "_SUCCESS", ".part-0.csv.crc"):
        (tmp_path / name).touch()
    assert format_of(str(tmp_path)) is Format.CSV

    (tmp_path / "rows.json").touch()
    with pytest.raises(InvalidArgumentError, match="tell of csv, json"):
        format_of(str(tmp_path))


def test_an_empty_directory_tells_nothing(tmp_path: Path) -> None:
    """No file, no format."""
    with pytest.raises(InvalidArgumentError, match="no format"):
        format_of(str(tmp_path))


@pytest.mark.parametrize(
    ("kind", "record", "read", "wrong"),
    [
        (Format.CSV, '2x,"a,b"', {"n": None, "tenant": "a,b"}, {"n": "2x"}),
        (Format.CSV, ",a", {"n": None, "tenant": "a"}, {}),
        (Format.CSV, "1,a,b", {"n": 1, "tenant": "a"}, {}),
        (Format.JSON, '{"n": "one"}', {"n": None, "tenant": None}, {"n": "one"}),
        (Format.JSON, '{"n": [1]}', {"n": None, "tenant": None}, {"n": [1]}),
        (Format.JSON, "{", {"n": None, "tenant": None}, {}),
        (Format.JSON, "[1]", {"n": None, "tenant": None}, {}),
    ],
)
def test_a_value_that_was_lost_is_found_in_its_record(
    kind: Format, record: str, read: dict[str, Any], wrong: dict[str, Any]
) -> None:
    """What a record has and its column could not take is named; an empty cell is no value."""
    assert misfits(kind, ["n", "tenant"], record, read) == wrong
