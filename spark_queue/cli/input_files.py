"""Rows of files, read in this process where there is no doubt what Spark would make of them.

What is not plain (a value that does not fit, a quote within quotes, another encoding) is left to
Spark, which takes it or says what is wrong with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from spark_queue.cli import choice
from spark_queue.cli.choice import Format
from spark_queue.cli.words import clip
from spark_queue.delta.input.kinds import Field
from spark_queue.delta.input.plain.arrow import type_of
from spark_queue.delta.input.plain.rows import OPTIONAL_COLUMNS
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
    texts = [_text(path) for path in paths]
    if kind is Format.JSON:
        return _table(files, _json(files, texts), columns, _of_json)
    return _table(files, _csv(files, texts), columns, _of_csv)


@dataclass(frozen=True, slots=True)
class _Records:
    """What stands in text files."""

    names: Sequence[str]
    """The columns."""
    rows: Sequence[Mapping[str, Any]]
    """What they have, null where nothing is."""


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
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        _leave(str(path), "it is compressed, or is not in UTF-8")
    if text.startswith("\ufeff") or "\0" in text:
        _leave(str(path), "it begins with a mark, or has a NUL in it")
    return text


def _json(files: str, texts: Sequence[str]) -> _Records:
    lines = [line for text in texts for line in _LINES.split(text) if line]
    rows = [_json_object(files, line) for line in lines]
    names = sorted({name for row in rows for name in row})
    if _are_alike(names):
        _leave(files, f"columns have the same name: {', '.join(names)}")
    return _Records(names, rows)


def _json_object(files: str, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line, object_pairs_hook=_different, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        _leave(files, f"{clip(line)!r} is no plain JSON object")
    return found


def _different(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def _no_constant(_word: str) -> NoReturn:
    raise ValueError


def _csv(files: str, texts: Sequence[str]) -> _Records:
    heads, rows = [], []
    for text in texts:
        head, *cells = [_cells(files, line) for line in _LINES.split(text) if line] or [[]]
        heads.append([name or "" for name in head])
        if any(len(row) != len(head) for row in cells):
            _leave(files, "a record has not as many columns as the header")
        rows += [dict(zip(heads[-1], row, strict=True)) for row in cells]
    names = heads[0]
    if _are_alike(names) or "" in names or any(head != names for head in heads):
        _leave(files, "their headers differ, or name a column twice, or not at all")
    return _Records(names, rows)


def _cells(files: str, line: str) -> list[str | None]:
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
    return _leave(files, f"how {clip(line)!r} is quoted, or blank, is for Spark to read")


def _are_alike(names: Sequence[str]) -> bool:
    return len({name.lower() for name in names}) < len(names)


def _table(
    files: str,
    records: _Records,
    columns: Sequence[Field],
    convert: Callable[[Any, str], Any],
) -> pa.Table:
    known = {column.name: column for column in (*OPTIONAL_COLUMNS, *columns)}
    for column in columns:
        if column.name not in records.names:
            said = ", ".join(records.names) or "none"
            raise SchemaMismatchError(column.name, f"is missing; the files have {said}")
    for name in records.names:
        if name not in known:
            raise SchemaMismatchError(name, "is not a column of the queue; drop it")
    return pa.table({name: _column(files, records, known[name], convert) for name in records.names})


def _column(
    files: str, records: _Records, column: Field, convert: Callable[[Any, str], Any]
) -> pa.Array:
    kind, found = column.kind.form, []
    for row in records.rows:
        value = row.get(column.name)
        try:
            found.append(None if value is None else convert(value, kind))
        except (ValueError, OverflowError):
            shown = clip(str(value))
            _leave(files, f"column {column.name!r} is {kind} in the queue, and {shown!r} in them")
    try:
        return pa.array(found, type_of(column))
    except (pa.ArrowException, UnicodeError) as exc:
        _leave(files, f"column {column.name!r} is {kind} in the queue: {exc}")


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
