"""Rows of a log that are found by the statistics of its files: heads, settings, the last item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from spark_queue.log.delta.commits import LogFile
from spark_queue.log.schema import HEAD, META_LANE

_Found = TypeVar("_Found")


class TableFiles(Protocol):
    """Files of a table with their statistics, and their rows; see :class:`Log`."""

    def files(self) -> list[LogFile]:
        """Return the files that the table has now."""

    def rows_of(self, files: Sequence[LogFile], columns: Sequence[str]) -> pa.Table:
        """Return some columns of files."""


class _StatisticsMissingError(LookupError):
    """Raised when the statistics of files do not say where a row is."""


def find(look: Callable[[], _Found], query: Callable[[], _Found]) -> _Found:
    """Return what files say, or else what a query says."""
    with suppress(_StatisticsMissingError):
        try:
            return look()
        except FileNotFoundError:
            # Merged meanwhile: the rows are in another file.
            return look()
    return query()


def newest(log: TableFiles) -> str | None:
    """Return the text of the newest head; ``None`` where there is none."""
    files = _files(log)
    if not files:
        return None
    last = max(file.ranges["_step"][1] for file in files)
    heads = _rows(log, [file for file in files if file.ranges["_step"][1] == last], HEAD)
    if not heads:
        raise _StatisticsMissingError
    body: str = max(heads, key=lambda row: int(row["_step"]))["_body"]
    return body


def text(log: TableFiles, kind: str, step: int) -> str | None:
    """Return the text of the row of a kind and a step."""
    files = [file for file in _files(log) if file.may_have("_step", step, step)]
    rows = [row for row in _rows(log, files, kind) if row["_step"] == step]
    return rows[0]["_body"] if rows else None


def texts(log: TableFiles, kind: str, lane: int) -> list[str]:
    """Return the texts of all rows of a kind, in a lane."""
    return [row["_body"] for row in _rows(log, _files(log, lane), kind)]


def last_seq(log: TableFiles) -> int | None:
    """Return the highest seq of an item's row."""
    items = [file for file in log.files() if file.gen >= 0]
    if not all("_seq" in file.ranges for file in items):
        raise _StatisticsMissingError
    return max((file.ranges["_seq"][1] for file in items), default=0)


def _files(log: TableFiles, lane: int = META_LANE) -> list[LogFile]:
    """Return the files of a lane, that of heads and settings by default."""
    files = [file for file in log.files() if file.gen == lane]
    if not all("_step" in file.ranges for file in files):
        raise _StatisticsMissingError
    return files


def _rows(log: TableFiles, files: Sequence[LogFile], kind: str) -> list[dict[str, Any]]:
    rows = log.rows_of(files, ("_kind", "_step", "_body")).to_pylist()
    return [row for row in rows if row["_kind"] == kind]
