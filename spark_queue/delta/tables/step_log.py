"""A log that is read and written without Spark, wherever its rows are: what is asked of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from spark_queue.delta.tables.files import LogFile
from spark_queue.delta.tables.heads import to_json
from spark_queue.delta.tables.log import Head
from spark_queue.delta.tables.schema import HEAD, META_LANE


class StepLog(Protocol):
    """A table as a log of numbered steps, whose rows lie in files."""

    def commit(self, head: Head, rows: pa.Table | None, *, is_synced: bool = True) -> bool:
        """Append a step, and tell whether it is ours: as :meth:`Log.commit` does.

        Parameters
        ----------
        is_synced : bool
            Whether the step survives a power cut when this returns, and not only this process.
        """
        ...

    def version_at(self, head: Head) -> int | None:
        """Return the version that a step made, if it is the newest that was seen."""
        ...

    def file_count(self) -> int:
        """Return how many files the table has."""
        ...

    def files(self) -> list[LogFile]:
        """Return the files that the table has now."""
        ...

    def rows_of(self, files: Iterable[LogFile], columns: Sequence[str]) -> pa.Table:
        """Return some columns of files.

        Raises
        ------
        OSError
            When one is gone, as its rows were put elsewhere; or when it is not whole.
        """
        ...

    def parts_of(
        self,
        files: Iterable[LogFile],
        columns: Sequence[str],
        may_matter: Callable[[LogFile], bool] | None,
    ) -> Iterator[pa.Table]:
        """Return the same part by part; of a large file only those that may matter.

        Raises
        ------
        OSError
            As :meth:`rows_of` does.
        """
        ...

    def schema(self) -> str:
        """Return the columns, as Spark writes a schema in JSON."""
        ...

    def columns(self) -> list[str]:
        """Return the names of the columns."""
        ...

    def add_columns(self, fields: Sequence[Mapping[str, Any]]) -> None:
        """Give the table more columns, as of Spark's JSON, which are null in all rows there are.

        Whoever calls has the right to write. It is on the disk when this returns.
        """
        ...

    def written(self, gen: int, rows: pa.Table) -> dict[str, Any]:
        """Write a file of rows of one partition, which nobody reads before it is in a commit."""
        ...

    def replace(
        self, gone: Sequence[LogFile], adds: Sequence[Mapping[str, Any]], *, takes_away: bool
    ) -> bool:
        """Put files in the place of others; False, and nothing done, where one is gone by now.

        Whoever calls has the right to write.
        """
        ...

    def discard(self, adds: Iterable[Mapping[str, Any]]) -> None:
        """Remove files that were written, and that no commit names."""
        ...


def step_rows(schema: pa.Schema, head: Head, rows: pa.Table | None) -> pa.Table:
    """Return all rows of a step, that of its head among them, in the columns of a log."""
    return pa.concat_tables(step_tables(schema, head, rows))


def step_tables(schema: pa.Schema, head: Head, rows: pa.Table | None) -> list[pa.Table]:
    """Return the same, the row of the head as a table of its own, which is the last one."""
    line = {"_gen": META_LANE, "_step": head.step, "_kind": HEAD, "_body": to_json(head)}
    named = {name: pa.array([value]) for name, value in line.items()}
    last = table_of(schema, 1, named)
    if rows is None:
        return [last]
    columns = columns_of(rows)
    columns["_step"] = pa.repeat(pa.scalar(head.step, pa.int64()), rows.num_rows)
    return [table_of(schema, rows.num_rows, columns), last]


def columns_of(rows: pa.Table) -> dict[str, Any]:
    """Return the columns of rows by their names."""
    return dict(zip(rows.column_names, rows.columns, strict=True))


def table_of(schema: pa.Schema, count: int, columns: Mapping[str, Any]) -> pa.Table:
    """Return columns in the order and types of a schema, with nulls for those that are missing."""
    return pa.table(
        [
            _of_type(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(count, field.type)
            for field in schema
        ],
        schema=schema,
    )


def _of_type(values: Any, kind: pa.DataType) -> Any:
    # To have Arrow find that there is nothing to do costs more than the question.
    return values if values.type == kind else values.cast(kind)
