"""Rows of files, read in this process where there is no doubt what Spark would make of them.

What is not plain (a value that does not fit, a quote within quotes, another encoding) is left to
Spark, which takes it or says what is wrong with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from spark_queue.cli import choice
from spark_queue.cli.choice import Format
from spark_queue.cli.words import clip
from spark_queue.columns.arrow.arrow_types import type_of
from spark_queue.columns.arrow.rows import OPTIONAL_COLUMNS
from spark_queue.columns.kinds import Field
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError, SparkNeededError

#: Bytes up to which files are read here.
MOST = 16 * 1024 * 1024

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3}|\.[0-9]{6})?"
    r"(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])"
)
_LINES = re.compile(r"\r\n|\r|\n")
_CELL = re.compile(r'(?:"([^"\\]*)"|([^",\\]*))(?:(,)|\Z)')

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_BOOLEANS = {"true": True, "false": False}

#: Errors of a value that is none of a column's type.
_MISFITS = (ValueError, OverflowError, pa.ArrowException)

#: Numbers up to which whole ones are doubles, too.
_EXACT = 2.0**53


def read(files: str, kind: Format, columns: Sequence[Field]) -> pa.Table:
    """Read a file, the files of a directory, or those of a pattern, by their names.

    Parameters
    ----------
    files : str
        Which files.
    kind : Format
        Their format.
    columns : sequence of Field
        The columns of the queue.

    Raises
    ------
    InvalidArgumentError
        When there is no such file.
    SchemaMismatchError
        When a column is missing, or the queue has no such column.
    SparkNeededError
        When it is Spark that has to read them.
    """
    paths = _paths(files)
    if kind is Format.PARQUET:
        return pa.concat_tables([_of_parquet(path, columns) for path in paths])
    texts = {str(path): _text(path) for path in paths}
    if kind is Format.JSON:
        return _table(_json(files, texts), columns, _of_json)
    return _table(_csv(files, texts), columns, _of_csv)


def are_arrays(files: str) -> bool:
    """Whether each of some files, certainly of this machine's disk, is one JSON array."""
    if choice.is_spark_set_up():
        return False
    try:
        return all(isinstance(json.loads(_text(path)), list) for path in _paths(files))
    except (ValueError, RecursionError, SparkNeededError):
        return False


class _Row(NamedTuple):
    """A record of a file, and where it stands."""

    file: str
    place: str
    values: Mapping[str, Any]
    """What its columns have, null where nothing is."""


@dataclass(frozen=True, slots=True)
class _Records:
    """The records of text files."""

    names: Sequence[str]
    """The columns."""
    rows: Sequence[_Row]


def _paths(files: str) -> list[Path]:
    path = Path(files)
    if re.search(r"[\[\]{}\\*?]", files) or "://" in files:
        _leave(files, "their path is a pattern, or is not on this machine's disk")
    if not path.exists():
        if choice.is_spark_set_up():
            _leave(files, "there is no such file on this machine's disk")
        raise InvalidArgumentError(f"files are {files!r}: there is no such file or directory")
    inside = sorted(path.iterdir()) if path.is_dir() else [path]
    found = [one for one in inside if one == path or one.name[0] not in "._"]
    if not found or not all(one.is_file() for one in found):
        _leave(files, "the directory has more in it than files")
    if sum(one.stat().st_size for one in found) > MOST:
        _leave(files, f"they are more than {MOST} bytes")
    return found


def _text(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        _leave(str(path), "it is compressed, or is not in UTF-8")
    if "\0" in text:
        _leave(str(path), "it has a NUL in it")
    return text


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Return where each line that is not empty stands, and its text."""
    lines = enumerate(_LINES.split(text), start=1)
    return ((f"line {number}", line) for number, line in lines if line)


def _json(files: str, texts: Mapping[str, str]) -> _Records:
    rows = [row for file, text in texts.items() for row in _json_rows(file, text)]
    names = sorted({name for row in rows for name in row.values})
    if _are_alike(names):
        _leave(files, f"columns have the same name: {', '.join(names)}")
    return _Records(names, rows)


def _json_rows(file: str, text: str) -> Iterator[_Row]:
    """Return the objects of a file: of its array, or one a line."""
    if text.lstrip().startswith("["):
        items = enumerate(_parse(file, "as a whole", text), start=1)
        found = ((f"item {number}", item) for number, item in items)
    else:
        found = ((place, _parse(file, place, line)) for place, line in _lines(text))
    for place, item in found:
        if not isinstance(item, dict):
            _leave(file, f"{place}: {clip(item)!r} is no JSON object")
        yield _Row(file, place, item)


def _parse(file: str, place: str, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_different, parse_constant=_no_constant)
    except (ValueError, RecursionError) as exc:
        _leave(file, f"{place}: {clip(text)!r} is no plain JSON: {exc}")


def _different(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"a name stands twice in {clip(dict(pairs))}")
    return dict(pairs)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _csv(files: str, texts: Mapping[str, str]) -> _Records:
    heads, rows = [], []
    for file, text in texts.items():
        lines = ((place, _cells(file, place, line)) for place, line in _lines(text))
        heads.append([name or "" for name in next(lines, ("", []))[1]])
        for place, cells in lines:
            if len(cells) != len(heads[-1]):
                _leave(file, f"{place}: it has {len(cells)} columns, the header {len(heads[-1])}")
            rows.append(_Row(file, place, dict(zip(heads[-1], cells, strict=True))))
    names = heads[0]
    if _are_alike(names) or "" in names or any(head != names for head in heads):
        _leave(files, "their headers differ, or name a column twice, or not at all")
    return _Records(names, rows)


def _cells(file: str, place: str, line: str) -> list[str | None]:
    """Return the cells of a line: null where nothing is, in quotes or without."""
    cells: list[str | None] = []
    at = 0 if line.strip() else None
    while at is not None:
        match = _CELL.match(line, at)
        if match is None:
            break
        quoted, plain, comma = match.groups()
        cells.append(quoted or plain or None)
        if not comma:
            return cells
        at = match.end()
    return _leave(file, f"{place}: how {clip(line)!r} is quoted, or blank, is for Spark to read")


def _are_alike(names: Sequence[str]) -> bool:
    return len({name.lower() for name in names}) < len(names)


def _table(
    records: _Records, columns: Sequence[Field], convert: Callable[[Any, str], Any]
) -> pa.Table:
    known = {column.name: column for column in (*OPTIONAL_COLUMNS, *columns)}
    for column in columns:
        if column.name not in records.names:
            said = ", ".join(records.names) or "none"
            raise SchemaMismatchError(column.name, f"is missing; the files have {said}")
    for name in records.names:
        if name not in known:
            raise SchemaMismatchError(name, "is not a column of the queue; drop it")
    return pa.table({name: _column(records.rows, known[name], convert) for name in records.names})


def _column(rows: Sequence[_Row], column: Field, convert: Callable[[Any, str], Any]) -> pa.Array:
    kind, wanted = column.kind.form, type_of(column)

    def array_of(some: Sequence[_Row]) -> pa.Array:
        values = (row.values.get(column.name) for row in some)
        return pa.array([None if one is None else convert(one, kind) for one in values], wanted)

    try:
        return array_of(rows)
    except _MISFITS:
        row = next(row for row in rows if not _fits(array_of, row))
        told = f"is {kind} in the queue, and {clip(str(row.values[column.name]))!r} there"
        return _leave(row.file, f"{row.place}: column {column.name!r} {told}")


def _fits(array_of: Callable[[Sequence[_Row]], pa.Array], row: _Row) -> bool:
    try:
        array_of([row])
    except _MISFITS:
        return False
    return True


def _of_json(value: Any, kind: str) -> Any:
    """Return a value of JSON as one of a column.

    Raises
    ------
    ValueError
        When it is not plain that it is one.
    """
    if kind in _INTEGERS and type(value) is int:
        return value
    if kind == "double" and type(value) in (int, float):
        return _double(value)
    if (kind, type(value)) in (("string", str), ("boolean", bool)):
        return value
    return _moment(value, kind) if isinstance(value, str) else _no(value)


def _of_csv(text: str, kind: str) -> Any:
    """Return the text of a cell as a value of a column; as :func:`_of_json`."""
    if kind == "string":
        return text
    if kind in _INTEGERS and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "double" and _NUMBER.fullmatch(text):
        return float(text)
    if kind == "boolean" and text in _BOOLEANS:
        return _BOOLEANS[text]
    return _moment(text, kind)


def _moment(text: str, kind: str) -> Any:
    if kind == "date" and _DATE.fullmatch(text):
        return date.fromisoformat(text)
    if kind == "timestamp" and _INSTANT.fullmatch(text):
        # Python 3.10 does not read the Z.
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    return _no(text)


def _double(value: float) -> float:
    if not abs(value) < _EXACT:
        raise ValueError
    return float(value)


def _no(value: object) -> NoReturn:
    raise ValueError(value)


def _of_parquet(path: Path, columns: Sequence[Field]) -> pa.Table:
    wanted = {column.name: type_of(column) for column in (*OPTIONAL_COLUMNS, *columns)}
    try:
        rows = pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as exc:
        _leave(str(path), f"it is not read as Parquet: {exc}")
    given = {field.name: field.type for field in rows.schema}
    names = {column.name for column in columns}
    if not names <= given.keys() or any(wanted.get(name) != kind for name, kind in given.items()):
        _leave(str(path), "its columns are not those of the queue, with the same types")
    return rows.replace_schema_metadata(None)


def _leave(files: str, why: str) -> NoReturn:
    raise SparkNeededError(f"to read {files!r}", why)
