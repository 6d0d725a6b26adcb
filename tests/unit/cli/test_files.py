"""Files whose rows are read in this process: only where there is no doubt what is in them."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_queue.cli.choice import Format
from spark_queue.cli.input_files import read
from spark_queue.columns.arrow.arrow_types import parse_fields
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError, SparkNeededError

_COLUMNS = parse_fields("name string, n int, x double, is_new boolean, day date, at timestamp")

_ROW = {
    "name": "a",
    "n": 1,
    "x": 1.5,
    "is_new": True,
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 10, tzinfo=timezone.utc),
}
_JSON = {**_ROW, "day": "2026-01-31", "at": "2026-01-31T12:00:00+02:00"}


def test_json_has_the_types_of_the_queue(tmp_path: Path) -> None:
    """A line is a row; what it leaves out is null."""
    file = tmp_path / "a.json"
    file.write_text(json.dumps(_JSON) + "\n\n" + '{"name": "ü", "x": 2}\n', encoding="utf-8")

    rows = read(str(file), Format.JSON, _COLUMNS).to_pylist()

    empty = dict.fromkeys(_ROW)
    assert rows == [_ROW, {**empty, "name": "ü", "x": 2.0}]


def test_csv_has_the_types_of_the_queue(tmp_path: Path) -> None:
    """A cell is a value, and an empty one is null."""
    file = tmp_path / "a.csv"
    lines = (
        "name,n,x,is_new,day,at",
        '"a",1,1.5,true,2026-01-31,2026-01-31T12:00:00+02:00',
        '"",,,,,',
        '"b, c",-7,2,false,,2026-01-31T10:00:00Z',
    )
    file.write_text("\r\n".join(lines))

    rows = read(str(file), Format.CSV, _COLUMNS).to_pylist()

    empty = dict.fromkeys(_ROW)
    assert rows[:2] == [_ROW, empty]
    assert (rows[2]["name"], rows[2]["n"], rows[2]["at"]) == ("b, c", -7, _ROW["at"])


def test_an_array_is_a_row_for_each_object(tmp_path: Path) -> None:
    """A file that is one JSON array has the rows that its objects would be, a line each."""
    file = tmp_path / "a.json"
    file.write_text(json.dumps([_JSON, {"name": "b"}], indent=2) + "\n", encoding="utf-8")
    (tmp_path / "b.json").write_text(json.dumps(_JSON))
    (tmp_path / "c.json").write_text("[]")

    rows = read(str(tmp_path), Format.JSON, _COLUMNS).to_pylist()

    assert rows == [_ROW, {**dict.fromkeys(_ROW), "name": "b"}, _ROW]


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv", "n\n1\n"), ("a.json", '{"n": 1}\n'), ("a.json", '[\n{"n": 1}]')],
)
def test_a_mark_of_the_byte_order_is_no_part_of_a_file(
    tmp_path: Path, name: str, text: str
) -> None:
    """Spreadsheets and editors put it there; the first column has its name without it."""
    (tmp_path / name).write_text(text, encoding="utf-8-sig")

    rows = read(str(tmp_path / name), Format(name.split(".")[1]), parse_fields("n int"))

    assert rows.to_pylist() == [{"n": 1}]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.csv", "n\n\n1\nx\n", "line 4: column 'n' is int in the queue, and 'x' there"),
        ("a.csv", "n\n1,2\n", "line 2: it has 2 columns, the header 1"),
        ("a.csv", 'n\n"1""2"\n', 'line 2: how \'"1""2"\' is quoted'),
        ("a.json", '{"n": 1}\n\n{"n": "x"}', "line 3: column 'n' is int in the queue, and 'x'"),
        ("a.json", '{"n": 3000000000}', "line 1: column 'n' is int .* '3000000000' there"),
        ("a.json", '{"n": 1}\n{"n": ', "line 2: '{\"n\": ' is no plain JSON: "),
        ("a.json", '{"n": 1, "n": 2}', "line 1: .*a name stands twice in "),
        ("a.json", '[\n{"n": 1},\n{"n": "x"}]', "item 2: column 'n' is int in the queue"),
        ("a.json", '[{"n": 1}, 7]', "item 2: '7' is no JSON object"),
        ("a.json", '[\n{"n": 1},\n]', "as a whole: .* line (2|3) column"),
        ("a.json", '[{"n": NaN}]', "as a whole: .*NaN is no number"),
    ],
)
def test_a_value_that_does_not_fit_has_its_place(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    """The error names the file, and the line, or the item of the array."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    kind = Format(name.split(".")[1])

    with pytest.raises(SparkNeededError, match=why) as raised:
        read(str(tmp_path), kind, parse_fields("n int"))

    assert name in str(raised.value)


def test_files_of_a_directory_come_by_their_names(tmp_path: Path) -> None:
    """All of them are read, save those that are hidden."""
    for name, value in (("b.json", 2), ("a.json", 1), ("_SUCCESS", 3), (".c.json", 4)):
        (tmp_path / name).write_text(json.dumps({"n": value}))

    rows = read(str(tmp_path), Format.JSON, parse_fields("n int"))

    assert rows["n"].to_pylist() == [1, 2]


def test_parquet_is_taken_as_it_is(tmp_path: Path) -> None:
    """Where its columns have the types of the queue."""
    table = pa.table({"n": pa.array([1, None], pa.int32()), "cost": [2.0, 1.0]})
    pq.write_table(table, tmp_path / "a.parquet")

    rows = read(str(tmp_path / "a.parquet"), Format.PARQUET, parse_fields("n int"))

    assert rows.to_pylist() == table.to_pylist()
    with pytest.raises(SparkNeededError):
        read(str(tmp_path / "a.parquet"), Format.PARQUET, parse_fields("n bigint"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"n": "1"}'),
        ("a.json", '{"n": 1.0}'),
        ("a.json", '{"n": 3000000000}'),
        ("a.json", '{"n": 1, "n": 2}'),
        ("a.json", '{"n": 1, "N": 2}'),
        ("a.json", '{"n": NaN}'),
        ("a.json", "[1]"),
        ("a.json", "{"),
        ("a.json", '[{"n": 1}'),
        ("a.json", '[{"n": 1}] [{"n": 2}]'),
        ("a.json", '[[{"n": 1}]]'),
        ("a.csv", "n\n1x\n"),
        ("a.csv", "n\n 1\n"),
        ("a.csv", "n\n1,2\n"),
        ("a.csv", "n\n  \n"),
        ("a.csv", 'n\n"1""2"\n'),
        ("a.csv", "n\n\\1\n"),
        ("a.csv", "n,N\n1,2\n"),
        ("a.parquet", "no such thing"),
    ],
)
def test_what_is_not_plain_is_left_to_spark(tmp_path: Path, name: str, text: str) -> None:
    """Spark takes such a value, or says what is wrong with it: nothing is guessed here."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    kind = Format(name.split(".")[1])

    with pytest.raises(SparkNeededError, match="to read"):
        read(str(tmp_path / name), kind, parse_fields("n int"))


def test_what_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is asked only where it was told to look elsewhere."""
    for name in ("SPARK_HOME", "HADOOP_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidArgumentError, match=r"none.json': there is no such file"):
        read(f"{tmp_path}/none.json", Format.JSON, parse_fields("n int"))

    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    with pytest.raises(SparkNeededError, match="no such file on this machine"):
        read(f"{tmp_path}/none.json", Format.JSON, parse_fields("n int"))


def test_patterns_are_left_to_spark(tmp_path: Path) -> None:
    """So are directories in directories: Spark takes their names for columns."""
    (tmp_path / "n=1").mkdir()

    for files in (f"{tmp_path}/*.json", str(tmp_path)):
        with pytest.raises(SparkNeededError):
            read(files, Format.JSON, parse_fields("n int"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("m\n1\n", "column 'n': is missing; the files have m"),
        ("n,m\n1,2\n", "column 'm': is not a column of the queue; drop it"),
        ("", "column 'n': is missing; the files have none"),
    ],
)
def test_columns_are_those_of_the_queue(tmp_path: Path, text: str, why: str) -> None:
    """The first that is missing or unknown is named."""
    (tmp_path / "a.csv").write_text(text)

    with pytest.raises(SchemaMismatchError, match=why):
        read(str(tmp_path / "a.csv"), Format.CSV, parse_fields("n int"))
