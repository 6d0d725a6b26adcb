"""Files of a log with their rows, and frames of Spark over them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from spark_queue.errors import SparkNeededError
from spark_queue.log import kernels as pc
from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta.commits import LogFile
from spark_queue.log.log_columns import column_names
from spark_queue.log.session_options import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_queue.log.disk.staged_rows import Staging

_NO_SESSION = "the queue was opened without one"


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows of a log are read: what has none is not read but for some columns."""

    columns: Sequence[str]
    picks: Callable[[pa.Table], pa.ChunkedArray]
    """Tells of rows with these columns which are wanted."""


def read_parts(
    parts: Iterable[Callable[[Sequence[str]], pa.Table]],
    columns: Sequence[str],
    wanted: RowFilter | None,
) -> Iterator[pa.Table]:
    """Return some columns of parts of a log, each read by them; of wanted rows only."""
    if wanted is None:
        yield from (read(columns) for read in parts)
        return
    reads = list(parts)
    known = [read(wanted.columns) for read in reads]
    # Of all at once: to look values up among many takes longer to begin than to do.
    mask = wanted.picks(pa.concat_tables(known)) if known else pa.chunked_array([], pa.bool_())
    at = 0
    for read, rows in zip(reads, known, strict=True):
        mine = mask.slice(at, rows.num_rows)
        at += rows.num_rows
        if pc.any(mine).as_py():
            yield read(columns).filter(mine)


class LogFrames:
    """Frames of Spark over the rows of a log, and what Spark does to them.

    Parameters
    ----------
    session : SparkSession or PlainSession
        What the queue was opened with.
    address : TableAddress
        Where the table is.
    """

    def __init__(self, session: Session, address: TableAddress) -> None:
        self.session, self.address = session, address

    def read(self, version: int | None = None) -> DataFrame:
        """Return the rows of all steps, or of those up to a version of the table."""
        del version
        self._needs_spark("to query its tables", _NO_SESSION)

    def stream(self) -> DataFrame:
        """Return the rows of all steps as a stream of Spark."""
        self._needs_spark("to stream its rows", _NO_SESSION)

    def compact(self) -> None:
        """Merge small files. It never loses to appends, nor they to it."""
        self._needs_spark("to merge files", _NO_SESSION)

    def delete(self, predicate: str) -> None:
        """Delete rows of a partition, which the predicate names by a literal."""
        self._needs_spark(f"to delete where {predicate}", _NO_SESSION)

    def remove(self, seqs: DataFrame) -> None:
        """Delete the rows of some items, by ``_seq`` and ``_gen``."""
        del seqs
        self._needs_spark("to remove items", _NO_SESSION)

    def require_own_transactions(self) -> None:
        """Raise where every write of the session would be taken for one step.

        Raises
        ------
        UnsafeSessionError
            When the session sets a transaction of its own.
        """

    def _needs_spark(self, what: str, why: str) -> NoReturn:
        raise SparkNeededError(f"queue {self.address.target!r}, {what},", why)


class LogFiles(LogFrames, ABC):
    """The files of a log, and their rows.

    Where only Spark reads them, what asks for them raises :class:`SparkNeededError`.
    """

    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return list(column_names(self.schema()))

    @abstractmethod
    def schema(self) -> str:
        """Return the columns, as Spark writes a schema in JSON."""

    def staging(self) -> Staging:
        """Return where tasks put rows that a step is to take."""
        self._needs_spark("to stage rows in it", "they are on no storage")

    @abstractmethod
    def files(self) -> list[LogFile]:
        """Return the files that the table has now."""

    def file_count(self) -> int:
        """Return how many files the table has."""
        return len(self.files())

    @abstractmethod
    def rows_of(self, files: Iterable[LogFile], columns: Sequence[str]) -> pa.Table:
        """Return some columns of files.

        Raises
        ------
        OSError
            When one is gone, as its rows were put elsewhere; or when it is not whole.
        """

    def parts_of(
        self,
        files: Iterable[LogFile],
        columns: Sequence[str],
        may_matter: Callable[[LogFile], bool] | None,
        wanted: RowFilter | None = None,
    ) -> Iterator[pa.Table]:
        """Return the same part by part; of large files only relevant parts, and wanted rows.

        Raises
        ------
        OSError
            As :meth:`rows_of` does.
        """
        matter = (file for file in files if may_matter is None or may_matter(file))
        reads = (partial(self.rows_of, [file]) for file in matter)
        return read_parts(reads, columns, wanted)

    @abstractmethod
    def written(self, gen: int, rows: pa.Table) -> dict[str, Any]:
        """Write a file of rows of one partition, for a later commit."""

    @abstractmethod
    def replace(
        self, gone: Sequence[LogFile], adds: Sequence[Mapping[str, Any]], *, takes_away: bool
    ) -> bool:
        """Put files in the place of others; False, and nothing done, where one is gone by now.

        The caller has the right to write.
        """

    @abstractmethod
    def discard(self, adds: Iterable[Mapping[str, Any]]) -> None:
        """Remove files that were written, and that no commit names."""
