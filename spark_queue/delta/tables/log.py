"""A Delta table as a log of numbered steps.

Step ``n`` is committed with Delta's transaction version ``n``: of several writers one wins, the
others fail or are skipped without an error. So a writer reads its own token back before it
believes that a step is its own.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Protocol, TypeVar

from spark_queue.delta.tables import glance, made, paths, unfinished
from spark_queue.delta.tables.address import TableAddress
from spark_queue.delta.tables.appending import sync_commits
from spark_queue.delta.tables.commits import Commit, commit_at, newest_version
from spark_queue.delta.tables.forcing import sync_directory
from spark_queue.delta.tables.heads import UnknownHeadError
from spark_queue.delta.tables.local_place import local_directory
from spark_queue.delta.tables.resting import resting
from spark_queue.delta.tables.schema import HEAD, SKIPPING_COLUMNS
from spark_queue.delta.tables.wishes import PlainSession, Session, promises_disk
from spark_queue.errors import InvalidArgumentError, QueueNotFoundError, SparkNeededError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from spark_queue.delta.tables.step_log import StepLog

#: The application id under which steps are committed; it is scoped to the table.
APP_ID = "spark_queue"

#: A commit that writes a checkpoint of Delta's own log takes seconds; the default is every tenth.
_CHECKPOINT_INTERVAL = 100

#: Stands for the directory of a table that is on no disk of this machine.
_NOT_LOCAL = Path()


class Head(Protocol):
    """The state of a log after a step: a dataclass, written as the text of a row of the step."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def step(self) -> int:
        """The number of the step."""
        ...

    @property
    def token(self) -> str:
        """What tells this writer's attempt at the step from any other."""
        ...

    @property
    def at(self) -> str:
        """When it was committed, by its writer's clock, as ISO 8601."""
        ...


_Head = TypeVar("_Head", bound=Head)
_Seen = TypeVar("_Seen")


class Log(Generic[_Head]):
    """One of the two tables of a queue, by its files on this machine's disk.

    What only Spark can do is done where there is a session (:func:`log_of`).

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
        self._directory: Path | None = None

    def exists(self) -> bool:
        """Tell whether there is a Delta table at the address."""
        directory = self.directory()
        return directory is not None and paths.has_log(directory)

    def is_unfinished(self) -> bool:
        """Tell whether its creation was cut, on this machine's disk, so that it holds no step."""
        directory = paths.directory_of(self.session, self.address)
        return directory is not None and unfinished.is_unfinished(directory)

    def location(self) -> str:
        """Return where the table's files are."""
        return self.detail()[0]

    def detail(self) -> tuple[str, str]:
        """Return where the table's files are, and the id that it got when it was made."""
        directory = paths.directory_of(self.session, self.address)
        table = None if directory is None else paths.first_id(directory)
        return ("", "") if directory is None else (paths.location_of(directory), table or "")

    def directory(self) -> Path | None:
        """Return the table's directory, if it is on this machine's disk."""
        if self._directory is None:
            location = self.location()
            self._directory = local_directory(location)
            # A table that is not made yet may be, by whoever asks.
            if self._directory is None and location and not location.startswith("file:"):
                self._directory = _NOT_LOCAL
        return None if self._directory is _NOT_LOCAL else self._directory

    def is_near(self) -> bool:
        """Tell whether a look for new commits costs next to nothing."""
        return self.directory() is not None

    def is_followed(self) -> bool:
        """Tell whether its commits can be read one by one, without a query of the table."""
        return self.is_near()

    def newest(self, known: int | None) -> int | None:
        """Return the newest version of the table; ``None`` where there is none, or none is known.

        Parameters
        ----------
        known : int, optional
            A version that was the newest once: then its successors are looked for.
        """
        directory = self.directory()
        return None if directory is None else newest_version(directory, known)

    def follow(self, since: int, until: int) -> list[Commit]:
        """Return what the versions after one did, up to another.

        Raises
        ------
        OSError
            When a commit is gone, as the log was cleaned up; or when it is not whole.
        """
        return [self._commit_at(version) for version in range(since + 1, until + 1)]

    def _commit_at(self, version: int) -> Commit:
        directory = self.directory()
        if directory is None:
            self._needs_spark("to follow its tables", "they are on no disk of this machine")
        return commit_at(directory, version, APP_ID)

    def version_of(self, token: str, known: int | None) -> int | None:
        """Return the version that a token was committed as, if it is told soon after a known one.

        The step stands or not, whatever this says.
        """
        del token, known
        return None

    def kept(self) -> StepLog | None:
        """Return the rows, where they are neither on a disk nor on a shared store."""
        return None

    def columns(self) -> Collection[str]:
        """Return the names of the columns."""
        return self.read().columns

    def create(
        self, schema: str, *, replaces: bool = True, skipping: str = SKIPPING_COLUMNS
    ) -> None:
        """Make the empty table, with the properties that a log of many small commits needs.

        What a process left that was killed while it made the table is removed, so that only one may
        make it at a time.

        Parameters
        ----------
        schema : str
            The columns, as Spark writes a schema in JSON.
        replaces : bool
            Whether a table that stands there already is replaced, or left as it is.
        skipping : str
            The columns whose minimum and maximum are kept per file.
        """
        properties = {
            "delta.checkpointInterval": str(_CHECKPOINT_INTERVAL),
            "delta.dataSkippingStatsColumns": skipping,
        }
        directory = paths.directory_of(self.session, self.address)

        def is_left(place: Path) -> bool:
            # Of a whole one somebody may be about to make the first step.
            return unfinished.is_unfinished(place) and (replaces or not unfinished.is_whole(place))

        if directory is not None and is_left(directory):
            _remove_directory(directory, is_left)
        if directory is None or not made.create(self.session, directory, schema, properties):
            self._create(schema, properties, replaces=replaces)

    def _create(self, schema: str, properties: Mapping[str, str], *, replaces: bool) -> None:
        del schema, properties
        if not self.exists():
            self._needs_spark("to make its tables", "a column has a type that only Spark keeps")
        if replaces:
            self._needs_spark("to make its tables", "a table, or what is left of one, is there")

    def drop(self) -> None:
        """Remove the table and its files.

        Raises
        ------
        InvalidArgumentError
            When it is a path on a shared store, whose files only that store's tools delete.
        """
        directory = local_directory(self.location())
        if directory is None:
            raise InvalidArgumentError(
                f"{self.address.target!r} is not on this machine: delete its files with the "
                "tools of its store"
            )
        _remove_directory(directory)

    def read(self, version: int | None = None) -> DataFrame:
        """Return the rows of all steps, or of those up to a version of the table."""
        del version
        self._needs_spark("to query its tables", "the queue was opened without one")

    def is_empty(self) -> bool:
        """Tell whether the table has no row."""
        try:
            return self.head() is None
        except UnknownHeadError:
            return False

    def head(self, since: int = 0) -> _Head | None:
        """Return the newest head whose step is at least ``since``."""
        newest = self.parsed(self._look(glance.Glance.head))
        return newest if newest is not None and newest.step >= since else None

    def parsed(self, text: str | None) -> _Head | None:
        """Read a head from the text of its row."""
        return None if text is None else self.parse(text)

    def head_at(self, step: int) -> _Head | None:
        """Return the head of one step."""
        return self.parsed(self.text(HEAD, step))

    def text(self, kind: str, step: int) -> str | None:
        """Return the text of the row of a kind and a step, in the lane of heads."""
        return self._look(lambda seen: seen.text(kind, step))

    def head_by(self, at: datetime) -> _Head | None:
        """Return the newest head that was committed at an instant or before."""
        heads = map(self.parse, self.texts(HEAD))
        before = [head for head in heads if datetime.fromisoformat(head.at) <= at]
        return max(before, key=lambda head: head.step, default=None)

    def texts(self, kind: str) -> list[str]:
        """Return the texts of all rows of a kind, in the lane of heads."""
        return self._look(lambda seen: seen.texts(kind))

    def last_seq(self, step: int) -> int | None:
        """Return the highest seq of the items that steps up to one have named."""
        del step
        return self._look(glance.Glance.last_seq)

    def compact(self) -> None:
        """Merge small files. It never loses to appends, nor they to it."""
        self._needs_spark("to merge files", "the queue was opened without one")

    def add_columns(self, fields: Sequence[Mapping[str, Any]]) -> None:
        """Give the table more columns, which are null in all rows that are there."""
        names = ", ".join(field["name"] for field in fields)
        self._needs_spark(f"to add {names}", "a column has a type that only Spark keeps")

    def delete(self, predicate: str) -> None:
        """Delete rows of a partition, which the predicate names by a literal."""
        self._needs_spark(f"to delete where {predicate}", "the queue was opened without one")

    def remove(self, seqs: DataFrame) -> None:
        """Delete the rows of some items.

        Parameters
        ----------
        seqs : DataFrame
            ``_seq`` and ``_gen``.
        """
        del seqs
        self._needs_spark("to remove items", "the queue was opened without one")

    def force(self) -> None:
        """Force what was committed to this machine's disk, where the session promises that."""
        directory = self.directory() if promises_disk(self.session) else None
        if directory is not None:
            sync_commits(directory)

    def commit(
        self,
        head: _Head,
        rows: DataFrame | pa.Table | None,
        *,
        small: bool = True,
        known: int | None = None,
    ) -> bool:
        """Append a step, and tell whether it is ours.

        Parameters
        ----------
        head : Head
            The head of the step; its number and token say which step and whose.
        rows : DataFrame, optional
            The rows beside the head, already computed: nothing is evaluated in the transaction.
        small : bool
            Write one file instead of one for each partition of ``rows``.
        known : int, optional
            A version before the step, by which it is found again without a query.

        Returns
        -------
        bool
            False where another writer has the step; then nothing of ours was written.

        Raises
        ------
        UnsafeSessionError
            When the session sets a transaction of its own, which would make writes vanish.
        """
        del head, rows, small, known
        self._needs_spark("to write its tables", "they ask for more than plain appends")

    def require_own_transactions(self) -> None:
        """Raise where every write of the session would be taken for one step.

        Raises
        ------
        UnsafeSessionError
            When the session sets a transaction of its own.
        """

    def _look(self, look: Callable[[glance.Glance], _Seen]) -> _Seen:
        try:
            return look(self._glance())
        except glance.QueryNeededError:
            why = "it has more files than a process looks at, or files without statistics"
            self._needs_spark("to read its tables", why)

    def _glance(self) -> glance.Glance:
        seen = glance.at(self.directory())
        if seen is None and not self.exists():
            raise QueueNotFoundError(self.address.target)
        if seen is None:
            self._needs_spark("to read its tables", "they ask for more than plain reads")
        return seen

    def _needs_spark(self, what: str, why: str) -> NoReturn:
        raise SparkNeededError(f"queue {self.address.target!r}, {what},", why)


def _remove_directory(directory: Path, may_go: Callable[[Path], bool] = lambda _: True) -> None:
    # Whoever waits to write makes files in it; in a place that nobody knows nobody does.
    gone = directory.with_name(f".{directory.name}-{uuid.uuid4().hex}")
    with resting(directory):
        directory.rename(gone)
    # After a power cut files are missing only where nobody looks for them.
    sync_directory(gone.parent)
    if may_go(gone):
        shutil.rmtree(gone)
    else:
        # Somebody has made the table while this looked.
        gone.rename(directory)


def newest_token(directory: Path) -> str | None:
    """Return the ``userMetadata`` of the newest commit of a table on this machine's disk.

    One small file is read, of the format that Delta's protocol fixes: a line of JSON an action.
    """
    try:
        log = directory / "_delta_log"
        names = os.listdir(log)  # noqa: PTH208 - thousands of names, of which one is wanted
        name = max(name for name in names if name.endswith(".json"))
        lines = (log / name).read_text(encoding="utf-8").split("\n")
        infos = [json.loads(line) for line in lines if line.startswith('{"commitInfo"')]
    except (OSError, ValueError):
        return None
    return infos[0]["commitInfo"].get("userMetadata") if infos else None


def log_of(session: Session, address: TableAddress, parse: Callable[[str], _Head]) -> Log[_Head]:
    """Return a table as whoever opened the queue can work with it."""
    if isinstance(session, PlainSession):
        tables = session.tables
        return (
            Log(session, address, parse) if tables is None else tables.log(session, address, parse)
        )
    by_spark = import_module("spark_queue.delta.tables.spark_log")
    log: Log[_Head] = by_spark.SparkLog(session, address, parse)
    return log
