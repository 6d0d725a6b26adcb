"""Tables whose rows are kept in memory, for runs that have to be over in milliseconds.

Commits are the real files, written and linked as ever; only the content of data files is not on the
disk, and the library of Rust, which opens a table slowly, is stood in for by its commits in order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock
from urllib.parse import unquote

import deltalake
import pyarrow as pa

from spark_queue.log import maintenance
from spark_queue.log.delta import commits
from spark_queue.log.disk import append_files, delta_rs, open_table

#: Columns whose ends are told of each file.
_RANGED = ("_step", "_seq", "_priority", "_round")


@dataclass(frozen=True, slots=True)
class _Facts:
    """What does not change about a table."""

    fields: pa.Schema
    schema: Any
    protocol: Any
    metadata: Any

    def __deepcopy__(self, _: object) -> _Facts:
        return self


class MemoryTable:
    """A table as far as a queue asks the library of Rust about it.

    Parameters
    ----------
    directory : str or Path
        Where it is. No commit of it may have been cleaned up.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._facts = _facts(str(directory))
        self.update_incremental()

    def update_incremental(self) -> None:
        """See the table as it is now."""
        log = self._directory / "_delta_log"
        names = sorted(name for name in os.listdir(log) if name.endswith(".json"))  # noqa: PTH208
        self._version, self._steps = int(names[-1][:20]), dict[str, int]()
        self._adds: dict[str, Mapping[str, Any]] = {}
        for action in (act for name in names for act in _actions(log / name)):
            if "add" in action:
                self._adds[action["add"]["path"]] = action["add"]
            elif "remove" in action:
                del self._adds[action["remove"]["path"]]
            elif "txn" in action:
                self._steps[action["txn"]["appId"]] = action["txn"]["version"]

    def version(self) -> int:
        """Return the newest version."""
        return self._version

    def transaction_version(self, app_id: str) -> int | None:
        """Return the newest step."""
        return self._steps.get(app_id)

    def schema(self) -> Any:
        """Return the columns."""
        return self._facts.schema

    def protocol(self) -> Any:
        """Return what readers and writers have to know."""
        return self._facts.protocol

    def metadata(self) -> Any:
        """Return the properties."""
        return self._facts.metadata

    def columns(self) -> list[str]:
        """Return the names of all columns."""
        names: list[str] = self._facts.fields.names
        return names

    def get_add_actions(self, *, flatten: bool) -> pa.Table:
        """Return the files, and the ends of their columns."""
        assert flatten  # noqa: S101 - nobody asks otherwise
        return pa.Table.from_pylist([_flat(add) for add in self._adds.values()])

    def to_pyarrow_table(self, columns: Sequence[str]) -> pa.Table:
        """Return some columns of all rows."""
        wanted = pa.schema([self._facts.fields.field(name) for name in columns])
        parts = [self._rows(add, wanted) for add in self._adds.values()]
        return pa.concat_tables([wanted.empty_table(), *parts])

    def _rows(self, add: Mapping[str, Any], wanted: pa.Schema) -> pa.Table:
        names = [name for name in wanted.names if name != "_gen"]
        rows = _File(self._directory / unquote(add["path"])).read(names)
        if "_gen" in wanted.names:
            gen = pa.scalar(int(add["partitionValues"]["_gen"]), pa.int32())
            rows = rows.append_column("_gen", pa.repeat(gen, rows.num_rows))
        # A file has no column that is null in all its rows.
        found = dict(zip(rows.column_names, rows.columns, strict=True))
        count = rows.num_rows
        columns = [found.get(one.name, pa.nulls(count, one.type)) for one in wanted]
        return pa.table([c.cast(one.type) for c, one in zip(columns, wanted, strict=True)], wanted)


class _File:
    """A data file, which says nothing of the rows in it."""

    metadata = SimpleNamespace(num_row_groups=0)

    def __init__(self, path: Path, **_options: str) -> None:
        path.stat()
        self._rows = _contents[str(path)]

    def read(self, columns: Sequence[str], *, use_threads: bool = False) -> pa.Table:
        """Return those of some columns that it has."""
        del use_threads
        known = set(self._rows.column_names)
        return self._rows.select([name for name in columns if name in known])


_contents: dict[str, pa.Table] = {}


def _write(path: str, rows: pa.Table) -> int:
    Path(path).touch(exist_ok=False)
    _contents[path] = rows
    return 0


@contextmanager
def in_memory() -> Iterator[None]:
    """Keep the rows of all tables in memory that are written meanwhile, and read what is there."""
    parquet = SimpleNamespace(ParquetFile=_File)
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(append_files, "write_file", _write))
        patches.enter_context(mock.patch.object(commits, "pq", parquet))
        # What is read at once is read from its path here, too.
        patches.enter_context(mock.patch.object(commits, "_FOOTER", -1))
        # By their names as the type checker knows them: what is called otherwise is noticed there.
        patches.enter_context(mock.patch.object(open_table, delta_rs.opened.__name__, MemoryTable))
        # Nobody tidies up beside: what is small needs none, and here one works at a time.
        patches.enter_context(mock.patch.object(maintenance, maintenance.ask.__name__))
        yield


def remove(path: str) -> None:
    """Remove a file, whatever it is."""
    os.unlink(path)  # noqa: PTH108 - thousands of times
    _contents.pop(path, None)


@cache
def _facts(directory: str) -> _Facts:
    real = deltalake.DeltaTable(directory, version=0)
    fields = pa.schema(real.schema().to_arrow())
    return _Facts(fields, real.schema(), real.protocol(), real.metadata())


def _actions(commit: Path) -> list[dict[str, Any]]:
    return _parsed(commit.read_text(encoding="utf-8"))


@lru_cache(maxsize=256)
def _parsed(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _flat(add: Mapping[str, Any]) -> dict[str, Any]:
    stats = json.loads(add["stats"])
    fact = {
        "path": add["path"],
        "size_bytes": add["size"],
        "num_records": stats["numRecords"],
        "partition._gen": int(add["partitionValues"]["_gen"]),
    }
    for end, of in (("min", "minValues"), ("max", "maxValues")):
        fact |= {f"{end}.{name}": stats.get(of, {}).get(name) for name in _RANGED}
    return fact
