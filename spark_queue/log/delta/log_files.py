"""Files of a log with their rows: heads, settings, the last item; and frames of Spark over them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import pyarrow as pa

from spark_queue.errors import QueueNotFoundError, SparkNeededError
from spark_queue.log import kernels as pc
from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta.commits import LogFile
from spark_queue.log.heads import Head, UnknownHeadError
from spark_queue.log.log_columns import column_names
from spark_queue.log.schema import HEAD, META_LANE
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


class LogFiles(ABC):
    """Files of a log with their rows, frames of Spark over them, and what Spark does to them.

    Where only Spark reads the files, what asks for them raises :class:`SparkNeededError`.

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

    def require_own_transactions(self) -> None:  # noqa: B027
        """Raise where every write of the session would be taken for one step.

        Raises
        ------
        UnsafeSessionError
            When the session sets a transaction of its own.
        """

    def _needs_spark(self, what: str, why: str) -> NoReturn:
        raise SparkNeededError(f"queue {self.address.target!r}, {what},", why)

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


_Head = TypeVar("_Head", bound=Head)
_Found = TypeVar("_Found")


class _StatisticsMissingError(LookupError):
    """Raised when the statistics of files do not say where a row is."""


def newest_text(log: LogFiles) -> str | None:
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


def text_of(log: LogFiles, kind: str, step: int) -> str | None:
    """Return the text of the row of a kind and a step."""
    files = [file for file in _files(log) if file.may_have("_step", step, step)]
    rows = [row for row in _rows(log, files, kind) if row["_step"] == step]
    return rows[0]["_body"] if rows else None


def texts_of(log: LogFiles, kind: str, lane: int) -> list[str]:
    """Return the texts of all rows of a kind, in a lane."""
    return [row["_body"] for row in _rows(log, _files(log, lane), kind)]


def last_seq_of(log: LogFiles) -> int | None:
    """Return the highest seq of an item's row."""
    items = [file for file in log.files() if file.gen >= 0]
    if not all("_seq" in file.ranges for file in items):
        raise _StatisticsMissingError
    return max((file.ranges["_seq"][1] for file in items), default=0)


def _files(log: LogFiles, lane: int = META_LANE) -> list[LogFile]:
    """Return the files of a lane, by default the lane of heads."""
    files = [file for file in log.files() if file.gen == lane]
    if not all("_step" in file.ranges for file in files):
        raise _StatisticsMissingError
    return files


def _rows(log: LogFiles, files: Sequence[LogFile], kind: str) -> list[dict[str, Any]]:
    rows = log.rows_of(files, ("_kind", "_step", "_body")).to_pylist()
    return [row for row in rows if row["_kind"] == kind]


class HeadRows(LogFiles, Generic[_Head]):
    """Heads of a log, and rows of settings; a query finds those without statistics.

    Parameters
    ----------
    parse : callable
        Reads a head from the text of its row.
    """

    def __init__(
        self, session: Session, address: TableAddress, parse: Callable[[str], _Head]
    ) -> None:
        super().__init__(session, address)
        self.parse: Callable[[str], _Head] = parse

    @abstractmethod
    def exists(self) -> bool:
        """Tell whether there is a table at the address."""

    def is_readable(self, known: int | None = None) -> bool:  # noqa: ARG002
        """Tell whether this process reads its files, and appends to them, without Spark.

        Parameters
        ----------
        known : int, optional
            The newest version of the table, where the caller has just looked.
        """
        return False

    def may_look(self) -> bool:
        """Tell whether its files are read here, so that statistics show where rows are."""
        return self.is_readable()

    def why_spark(self) -> str:
        """Say why only Spark reads or writes its files."""
        return "they ask for more than plain reads, or have files without statistics"

    def head(self, since: int = 0) -> _Head | None:
        """Return the newest head whose step is at least ``since``."""
        newest = self._find(
            lambda: self._parse_head(newest_text(self)), lambda: self._query_head(since)
        )
        return newest if newest is not None and newest.step >= since else None

    def _parse_head(self, text: str | None) -> _Head | None:
        """Read a head from the text of its row."""
        return None if text is None else self.parse(text)

    def head_at(self, step: int) -> _Head | None:
        """Return the head of one step."""
        return self._parse_head(self.text(HEAD, step))

    def head_by(self, at: datetime) -> _Head | None:
        """Return the newest head that was committed at an instant or before."""
        heads = map(self.parse, self.texts(HEAD))
        before = [head for head in heads if datetime.fromisoformat(head.at) <= at]
        return max(before, key=lambda head: head.step, default=None)

    def is_empty(self) -> bool:
        """Tell whether the table has no row."""
        try:
            return self.head() is None
        except UnknownHeadError:
            return False

    def text(self, kind: str, step: int) -> str | None:
        """Return the text of the row of a kind and a step, in the lane of heads."""
        return self._find(lambda: text_of(self, kind, step), lambda: self._query_text(kind, step))

    def texts(self, kind: str, lane: int = META_LANE) -> list[str]:
        """Return the texts of all rows of a kind, in the lane of heads or another one."""
        at = kind, lane
        return self._find(lambda: texts_of(self, *at), lambda: self._query_texts(*at))

    def last_seq(self, step: int) -> int | None:
        """Return the highest seq of the items that steps up to one have named, or later ones."""
        return self._find(lambda: last_seq_of(self), lambda: self._query_last_seq(step))

    def _find(self, look: Callable[[], _Found], query: Callable[[], _Found]) -> _Found:
        return _find(look, query) if self.may_look() else query()

    def _query_head(self, since: int) -> _Head | None:
        self._refuse_query(since)

    def _query_text(self, kind: str, step: int) -> str | None:
        self._refuse_query(kind, step)

    def _query_texts(self, kind: str, lane: int) -> list[str]:
        self._refuse_query(kind, lane)

    def _query_last_seq(self, step: int) -> int | None:
        self._refuse_query(step)

    def _refuse_query(self, *_: object) -> NoReturn:
        if not self.exists():
            raise QueueNotFoundError(self.address.target)
        self._needs_spark("to read its tables", self.why_spark())


def _find(look: Callable[[], _Found], query: Callable[[], _Found]) -> _Found:
    """Return what files say, or else what a query says."""
    with suppress(_StatisticsMissingError):
        try:
            return look()
        except FileNotFoundError:
            # Merged meanwhile: the rows are in another file.
            return look()
    return query()
