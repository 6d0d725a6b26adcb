"""A Delta table as a log of numbered steps.

Step ``n`` is committed with Delta's transaction version ``n``: of several writers one wins, the
others fail or are skipped without an error. So a writer reads its own token back before it
believes that a step is its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spark_queue.log.delta.commits import Commit
from spark_queue.log.delta.log_files import HeadRows
from spark_queue.log.delta.table_creation import why_spark
from spark_queue.log.heads import Head
from spark_queue.log.schema import SKIPPING_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


#: The application id, in its table, under which steps are committed.
APP_ID = "spark_queue"

_Head = TypeVar("_Head", bound=Head)


class Log(HeadRows[_Head]):
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

    #: Whether each look is a request.
    is_remote: bool = False

    def still(self, older_than: float | None) -> AbstractContextManager[None]:
        """Keep the log for this thread as it was last seen.

        Parameters
        ----------
        older_than : float, optional
            Seconds since the last look from which on it is looked at first. ``None`` for the log
            that is written next, whose commit is a look: then only if others write to it, too.
        """
        del older_than
        return nullcontext()

    def still_beside(self, other: Log[Any], older_than: float) -> AbstractContextManager[None]:
        """Keep another log still for a block that commits to this one.

        It is looked at first where it is older than that, or while this one's files are written:
        then :class:`LogMoved` is raised where others have committed to it.
        """
        return other.still(older_than)

    def look(self) -> bool:
        """Look at a log that stays :meth:`still`, and tell whether others have committed."""
        return False

    def has_news(self) -> bool:
        """Look at this log and the still one beside it; True after commits of others."""
        return self.look()

    def pause(self) -> float:
        """Return the seconds after which one who waits looks anyhow."""
        return 1.0

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
        """Return the version of a token, if it follows soon after a known one.

        This does not change whether the step stands.
        """
        del token, known
        return None

    def version_at(self, head: Head) -> int | None:
        """Return the version that a step made, if it is the newest that was seen."""
        del head
        return None

    def has_files(self) -> bool:
        """Tell whether SQL can read its rows in this process, however many they are."""
        return self.is_readable()

    def forget(self) -> None:
        """Forget what this has opened of a table: another one may be in its place."""

    def properties(self) -> Mapping[str, str]:
        """Return the properties of the table."""
        return {}

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

    @abstractmethod
    def append(
        self, head: _Head, rows: DataFrame | pa.Table | None, *, is_synced: bool = True
    ) -> bool:
        """Append a step whose rows are in this process, without Spark; as :meth:`commit`."""

    def force(self) -> None:
        """Force all commits to this machine's disk, if the session promises that."""

    def add_columns(self, fields: Sequence[Mapping[str, Any]]) -> None:
        """Give the table more columns, as of Spark's JSON, which are null in all rows there are.

        The caller has the right to write. It is as safe as a step when this returns.
        """
        names = ", ".join(field["name"] for field in fields)
        self._needs_spark(f"to add {names}", why_spark(fields))
