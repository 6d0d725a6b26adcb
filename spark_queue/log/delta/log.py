"""A Delta table as a log of numbered steps.

Step ``n`` is committed with Delta's transaction version ``n``: of several writers one wins, the
others fail or are skipped without an error. So a writer reads its own token back before it
believes that a step is its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from spark_queue.errors import QueueNotFoundError, SparkNeededError
from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta import head_rows
from spark_queue.log.delta.commits import Commit, LogFile
from spark_queue.log.delta.table_creation import why_spark
from spark_queue.log.heads import Head, UnknownHeadError
from spark_queue.log.request_count import Looks
from spark_queue.log.schema import HEAD, META_LANE, SKIPPING_COLUMNS, column_names
from spark_queue.log.session_options import Session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from spark_queue.log.disk.staged_rows import Staging

#: The application id, in its table, under which steps are committed.
APP_ID = "spark_queue"

_NO_FILES = "they ask for more than plain reads and appends"


_Head = TypeVar("_Head", bound=Head)
_Found = TypeVar("_Found")


class Log(Looks, ABC, Generic[_Head]):
    """A table as a log of numbered steps, whose rows lie in files.

    A new kind of log is a subclass of it, and passes the exercise of ``tests/logs``. Where only
    Spark reads the files of a table, what asks for these raises :class:`SparkNeededError`.

    Parameters
    ----------
    session : SparkSession or PlainSession
        What the queue was opened with.
    address : TableAddress
        Where the table is.
    parse : callable
        Reads a head from the text of its row.
    """

    def __init__(
        self, session: Session, address: TableAddress, parse: Callable[[str], _Head]
    ) -> None:
        self.session = session
        self.address = address
        self.parse: Callable[[str], _Head] = parse

    @abstractmethod
    def exists(self) -> bool:
        """Tell whether there is a table at the address."""

    def is_unfinished(self) -> bool:
        """Tell whether its creation was cut, so that it holds no step."""
        return False

    def location(self) -> str:
        """Return where the table's files are."""
        return self.detail()[0]

    @abstractmethod
    def detail(self) -> tuple[str, str]:
        """Return where the table's files are, and the id that it got when it was made."""

    def find_directory(self) -> Path | None:
        """Return the table's directory, if it is on this machine's disk."""
        return None

    @abstractmethod
    def create(
        self, schema: str, *, replaces: bool = True, skipping: str = SKIPPING_COLUMNS
    ) -> None:
        """Make the empty table. Only one may make it at a time.

        Parameters
        ----------
        schema : str
            The columns, as Spark writes a schema in JSON.
        replaces : bool
            Whether a table that stands there already is replaced, or left as it is.
        skipping : str
            The columns whose minimum and maximum are kept per file.
        """

    @abstractmethod
    def drop(self) -> None:
        """Remove the table and its files.

        Raises
        ------
        InvalidArgumentError
            When it is a path on a shared store, whose files only that store's tools delete.
        """

    def is_near(self) -> bool:
        """Tell whether a look for new commits costs next to nothing."""
        return False

    def is_followed(self) -> bool:
        """Tell whether its commits can be read one by one, without a query of the table."""
        return self.is_near()

    @abstractmethod
    def newest(self, known: int | None) -> int | None:
        """Return the newest version of the table; ``None`` where there is none, or none is known.

        One that is ``known`` was the newest once: then its successors are looked for.
        """

    @abstractmethod
    def follow(self, since: int, until: int) -> list[Commit]:
        """Return what the versions after one did, up to another.

        Raises
        ------
        OSError
            When a commit is gone, as the log was cleaned up; or when it is not whole.
        """

    def version_of(self, token: str, known: int | None) -> int | None:
        """Return the version that a token was committed as, if it is told soon after a known one.

        This does not change whether the step stands.
        """
        del token, known
        return None

    def version_at(self, head: Head) -> int | None:
        """Return the version that a step made, if it is the newest that was seen."""
        del head
        return None

    def is_readable(self, known: int | None = None) -> bool:  # noqa: ARG002
        """Tell whether this process reads its files, and appends to them, without Spark.

        Parameters
        ----------
        known : int, optional
            The newest version of the table, where the caller has just looked.
        """
        return False

    def has_files(self) -> bool:
        """Tell whether SQL can read its rows in this process, however many they are."""
        return self.is_readable()

    def forget(self) -> None:
        """Forget what this has opened of a table: another one may be in its place."""

    def may_look(self) -> bool:
        """Tell whether its files are read here, so that statistics show where rows are."""
        return self.is_readable()

    def head(self, since: int = 0) -> _Head | None:
        """Return the newest head whose step is at least ``since``."""
        newest = self._find(
            lambda: self.parsed(head_rows.newest(self)), lambda: self._query_head(since)
        )
        return newest if newest is not None and newest.step >= since else None

    def parsed(self, text: str | None) -> _Head | None:
        """Read a head from the text of its row."""
        return None if text is None else self.parse(text)

    def head_at(self, step: int) -> _Head | None:
        """Return the head of one step."""
        return self.parsed(self.text(HEAD, step))

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
        return self._find(
            lambda: head_rows.text(self, kind, step), lambda: self._query_text(kind, step)
        )

    def texts(self, kind: str, lane: int = META_LANE) -> list[str]:
        """Return the texts of all rows of a kind, in the lane of heads or another one."""
        at = kind, lane
        return self._find(lambda: head_rows.texts(self, *at), lambda: self._query_texts(*at))

    def last_seq(self, step: int) -> int | None:
        """Return the highest seq of the items that steps up to one have named, or later ones."""
        return self._find(lambda: head_rows.last_seq(self), lambda: self._query_last_seq(step))

    def _find(self, look: Callable[[], _Found], query: Callable[[], _Found]) -> _Found:
        return head_rows.find(look, query) if self.may_look() else query()

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

    def tables_beside(self) -> set[str]:
        """Return the names of all tables in the place that this one is in, as far as known."""
        return set()

    def properties(self) -> Mapping[str, str]:
        """Return the properties of the table."""
        return {}

    def why_spark(self) -> str:
        """Say why only Spark reads or writes its files."""
        return "they ask for more than plain reads, or have files without statistics"

    def commit(
        self,
        head: _Head,
        rows: DataFrame | pa.Table | None,
        *,
        small: bool = True,
        known: int | None = None,
        is_synced: bool = True,
    ) -> bool:
        """Append a step, and tell whether it is ours.

        Parameters
        ----------
        head : Head
            The head of the step; its number and token say which step and whose.
        rows : DataFrame or pyarrow.Table, optional
            The rows beside the head, already computed: nothing is evaluated in the transaction.
        small : bool
            Write one file instead of one for each partition of ``rows``.
        known : int, optional
            A version before the step, by which it is found again without a query.
        is_synced : bool
            Whether the step survives a power cut when this returns, and not only this process.

        Returns
        -------
        bool
            False where another writer has the step; then nothing of ours was written.

        Raises
        ------
        UnsafeSessionError
            When the session sets a transaction of its own, which would make writes vanish.
        """
        del small, known
        return self.append(head, rows, is_synced=is_synced)

    def append(
        self, head: _Head, rows: DataFrame | pa.Table | None, *, is_synced: bool = True
    ) -> bool:
        """Append a step whose rows are in this process, without Spark; as :meth:`commit`."""
        del rows, is_synced
        self._needs_spark(f"to write step {head.step}", "only Spark writes its tables")

    def require_own_transactions(self) -> None:
        """Raise where every write of the session would be taken for one step.

        Raises
        ------
        UnsafeSessionError
            When the session sets a transaction of its own.
        """

    def force(self) -> None:
        """Force what was committed to this machine's disk, where the session promises that."""

    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return list(column_names(self.schema()))

    @abstractmethod
    def schema(self) -> str:
        """Return the columns, as Spark writes a schema in JSON."""

    def staging(self) -> Staging:
        """Return where tasks put rows that a step is to take."""
        self._needs_spark("to stage rows in it", _NO_FILES)

    def files(self) -> list[LogFile]:
        """Return the files that the table has now."""
        self._needs_spark("to read its files", _NO_FILES)

    def file_count(self) -> int:
        """Return how many files the table has."""
        return len(self.files())

    def rows_of(self, files: Iterable[LogFile], columns: Sequence[str]) -> pa.Table:
        """Return some columns of files.

        Raises
        ------
        OSError
            When one is gone, as its rows were put elsewhere; or when it is not whole.
        """
        del files, columns
        self._needs_spark("to read its files", _NO_FILES)

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
        for file in files:
            if may_matter is None or may_matter(file):
                yield self.rows_of([file], columns)

    def written(self, gen: int, rows: pa.Table) -> dict[str, Any]:
        """Write a file of rows of one partition, which nobody reads before it is in a commit."""
        del gen, rows
        self._needs_spark("to write its files", _NO_FILES)

    def replace(
        self, gone: Sequence[LogFile], adds: Sequence[Mapping[str, Any]], *, takes_away: bool
    ) -> bool:
        """Put files in the place of others; False, and nothing done, where one is gone by now.

        The caller has the right to write.
        """
        del gone, adds, takes_away
        self._needs_spark("to replace its files", _NO_FILES)

    def discard(self, adds: Iterable[Mapping[str, Any]]) -> None:
        """Remove files that were written, and that no commit names."""
        del adds
        self._needs_spark("to remove its files", _NO_FILES)

    def add_columns(self, fields: Sequence[Mapping[str, Any]]) -> None:
        """Give the table more columns, as of Spark's JSON, which are null in all rows there are.

        The caller has the right to write. It is as safe as a step when this returns.
        """
        names = ", ".join(field["name"] for field in fields)
        self._needs_spark(f"to add {names}", why_spark(fields))

    def read(self, version: int | None = None) -> DataFrame:
        """Return the rows of all steps, or of those up to a version of the table."""
        del version
        self._needs_spark("to query its tables", "the queue was opened without one")

    def stream(self) -> DataFrame:
        """Return the rows of all steps as a stream of Spark."""
        self._needs_spark("to stream its rows", "the queue was opened without one")

    def compact(self) -> None:
        """Merge small files. It never loses to appends, nor they to it."""
        self._needs_spark("to merge files", "the queue was opened without one")

    def delete(self, predicate: str) -> None:
        """Delete rows of a partition, which the predicate names by a literal."""
        self._needs_spark(f"to delete where {predicate}", "the queue was opened without one")

    def remove(self, seqs: DataFrame) -> None:
        """Delete the rows of some items, by ``_seq`` and ``_gen``."""
        del seqs
        self._needs_spark("to remove items", "the queue was opened without one")

    def _needs_spark(self, what: str, why: str) -> NoReturn:
        raise SparkNeededError(f"queue {self.address.target!r}, {what},", why)
