"""Look at a local table's log without a query.

To open a queue takes a handful of single rows: its newest heads and its settings. Spark plans a
query for each. Here the files that have them are found by their statistics, in the table as it is
now: nothing is kept from one glance to the next.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from spark_queue.delta.tables import made, paths
from spark_queue.delta.tables.files import gen_of, read_file
from spark_queue.delta.tables.rust import PLAIN_READER, opened, telling
from spark_queue.delta.tables.schema import HEAD, META_LANE
from spark_queue.errors import SparkNeededError

if TYPE_CHECKING:
    from deltalake import DeltaTable

#: Files whose statistics are looked at; a log of more steps since it was compacted is Spark's.
_MOST_FILES = 2_000

_FACTS = ("path", "size_bytes", "partition._gen", "min._step", "max._step", "max._seq")


class QueryNeededError(LookupError):
    """Raised when the statistics of files do not say where a row is."""


class Glance:
    """One look at a log.

    Parameters
    ----------
    directory : Path
        Where the table is.
    table : deltalake.DeltaTable
        The table, just opened.
    """

    def __init__(self, directory: Path, table: DeltaTable) -> None:
        self._directory = directory
        adds = pa.table(table.get_add_actions(flatten=True))
        known = [name for name in _FACTS if name in adds.column_names]
        facts = adds.select(known).to_pylist() if adds.num_rows <= _MOST_FILES else None
        self._facts: list[dict[str, Any]] | None = facts
        self.columns = frozenset(field.name for field in table.schema().fields)
        self.schema: str = table.schema().to_json()

    def head(self) -> str | None:
        """Return the text of the newest head; ``None`` where there is none.

        Raises
        ------
        QueryNeededError
            When only a query can tell.
        """
        files = self._meta_files()
        if not files:
            return None
        newest = max(file["max._step"] for file in files)
        heads = self._rows([file for file in files if file["max._step"] == newest], HEAD)
        if not heads:
            raise QueryNeededError
        body: str = max(heads, key=lambda row: int(row["_step"]))["_body"]
        return body

    def text(self, kind: str, step: int) -> str | None:
        """Return the text of the row of a kind and a step; the errors are those of :meth:`head`."""
        files = [f for f in self._meta_files() if f["min._step"] <= step <= f["max._step"]]
        rows = [row for row in self._rows(files, kind) if row["_step"] == step]
        return rows[0]["_body"] if rows else None

    def texts(self, kind: str) -> list[str]:
        """Return the texts of all rows of a kind; the errors are those of :meth:`head`."""
        return [row["_body"] for row in self._rows(self._meta_files(), kind)]

    def last_seq(self) -> int:
        """Return the highest seq of an item's row; the errors are those of :meth:`head`."""
        if self._facts is None:
            raise QueryNeededError
        items = [fact for fact in self._facts if gen_of(fact["partition._gen"]) >= 0]
        if any(fact.get("max._seq") is None for fact in items):
            raise QueryNeededError
        return max((fact["max._seq"] for fact in items), default=0)

    def _meta_files(self) -> list[dict[str, Any]]:
        """Return the files of the lane that has heads and settings."""
        if self._facts is None:
            raise QueryNeededError
        files = [fact for fact in self._facts if str(fact["partition._gen"]) == str(META_LANE)]
        if any(file.get("min._step") is None or file.get("max._step") is None for file in files):
            raise QueryNeededError
        return files

    def _rows(self, files: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
        columns = ["_kind", "_step", "_body"]
        rows: list[dict[str, Any]] = []
        for file in files:
            path, steps = (
                self._directory / unquote(file["path"]),
                (file["min._step"], file["max._step"]),
            )
            rows += read_file(path, columns, file["size_bytes"], steps).to_pylist()
        return [row for row in rows if row["_kind"] == kind]


def at(directory: Path | None) -> Glance | None:
    """Look at a table; ``None`` where there is none, or Spark has to.

    Raises
    ------
    FileDamagedError
        When a file of its log is not what was written; it names the file.
    FileAccessError
        When the system refuses a file.
    SetupError
        When deltalake does not work in this process.
    """
    if directory is None or not made.is_installed() or "%" in str(directory):
        return None
    if not paths.has_log(directory):
        return None
    try:
        table = opened(directory)
        with telling(directory):
            is_plain = table.protocol().min_reader_version <= PLAIN_READER
            return Glance(directory, table) if is_plain else None
    except SparkNeededError:
        return None
