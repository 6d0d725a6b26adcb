"""Formats of files: as they are named, and as their names tell."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any

from spark_queue.errors import InvalidArgumentError

#: The ends of names, before which another may say how the file is compressed.
_ENDS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}
_COMPRESSED = {".bz2", ".gz", ".lz4", ".snappy", ".zst"}


class Format(str, Enum):
    """Formats of files to enqueue from."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def format_of(files: str) -> Format:
    """Return the format of a file, a pattern, or the files of a directory, by their names.

    Raises
    ------
    InvalidArgumentError
        When the names do not tell, or tell of several formats.
    """
    directory = Path(files)
    names = [files]
    if directory.is_dir():
        names = [path.name for path in directory.iterdir() if path.name[0] not in "._"]
    found = {_of_name(name) for name in names}
    if len(found) == 1 and None not in found:
        return Format(found.pop())
    told = ", ".join(sorted(kind for kind in found if kind)) or "no format"
    raise InvalidArgumentError(
        f"files {files!r}: their names tell of {told}; say --format csv, json or parquet"
    )


def _of_name(name: str) -> str | None:
    ends = [end.lower() for end in PurePosixPath(name).suffixes]
    while ends and ends[-1] in _COMPRESSED:
        ends.pop()
    return _ENDS.get(ends[-1]) if ends else None


def misfits(
    kind: Format, names: Sequence[str], record: str, read: Mapping[str, Any]
) -> dict[str, Any]:
    """Return which values of a record of a text file do not fit their columns.

    Parameters
    ----------
    kind : Format
        The format of the file.
    names : sequence of str
        The columns of the file.
    record : str
        The record as it stands there.
    read : mapping
        What the columns of the queue got of it; null where a value does not fit.

    Returns
    -------
    dict
        Columns and what the record has there; empty where the record is no record.
    """
    values = _values(kind, names, record)
    given = {name: values[name] for name in names if values.get(name) not in (None, "")}
    return {name: value for name, value in given.items() if read[name] is None}


def _values(kind: Format, names: Sequence[str], record: str) -> Mapping[str, Any]:
    if kind is Format.CSV:
        cells = next(csv.reader([record]), [])
        return dict(zip(names, cells, strict=True)) if len(cells) == len(names) else {}
    try:
        found = json.loads(record)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
