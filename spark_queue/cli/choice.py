"""Engines of commands: what each answers, and the choice of one."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError, SparkQueueError
from spark_queue.extras import is_installed, java_problem
from spark_queue.log import addresses
from spark_queue.log.addresses import QueueAddress, TableAddress, is_on_object_store
from spark_queue.log.session_options import PlainSession
from spark_queue.results import Affected, EnqueueResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_queue.delta_queue import DeltaQueue
    from spark_queue.local_queue import LocalQueue, LocalReader
    from spark_queue.reader import Reader
    from spark_queue.report.finding import Checkup, Thresholds

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


#: A queue, as one of its readers sees it.
AnyQueue: TypeAlias = "DeltaQueue | Reader | LocalQueue | LocalReader"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSource:
    """Where rows to enqueue are."""

    table: str | None
    """A table of the catalog, or"""
    files: str | None
    """a file, directory or pattern."""
    kind: Format | None
    """The format of the files."""
    options: Mapping[str, Any]
    """What is asked beside, as for the queue's ``enqueue``."""


class CommandScope(Protocol):
    """The part of a command's scope that engines use; see :class:`Scope`."""

    @property
    def spark(self) -> SparkSession:
        """The session, started when it is first used."""

    def locate(self, name: str) -> str:
        """Return the path or table name that a queue or an output has for the library."""

    def queue(self, name: str) -> DeltaQueue:
        """Open a queue with Spark."""

    def reading(self, name: str, reader: str | None) -> DeltaQueue | Reader:
        """Open a queue as one of its readers sees it."""

    def require_wrong_for_all(self, error: SparkQueueError) -> None:
        """Raise SparkNeededError where a session, if there can be one, may take the argument."""


class CommandEngine(Protocol):
    """Answers commands; a module is one."""

    def create(
        self, scope: CommandScope, name: str, schema: str, config: QueueConfig, *, exist_ok: bool
    ) -> AnyQueue:
        """Create a queue; or open an equal one, where that is allowed."""

    def open_queue(self, scope: CommandScope, name: str, reader: str | None) -> AnyQueue:
        """Open a queue for its default reader, or for a registered one."""

    def drop(self, scope: CommandScope, place: str, *, dry_run: bool = False) -> Affected | None:
        """Remove a queue, or return what would be removed."""

    def clone(self, scope: CommandScope, name: str, to: str) -> AnyQueue:
        """Make a queue once more, and return the clone."""

    def examine(self, scope: CommandScope, name: str, thresholds: Thresholds) -> Checkup:
        """Find a queue's faults, even where it does not open."""

    def locate(self, scope: CommandScope, name: str) -> str:
        """Return the name or path of a queue as the library has it."""

    def enqueue(
        self, scope: CommandScope, queue: AnyQueue, source: RowSource
    ) -> EnqueueResult[Any]:
        """Add rows."""


#: In these a user names a master, packages or settings, which mean nothing without Spark.
_SPARK_IS_ASKED = ("SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS")

#: By these a path, or a name, may mean something to Spark that is not on this machine's disk.
_SPARK_IS_SET_UP = (
    *("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"),
    *_SPARK_IS_ASKED,
)


class EngineChoice(str, Enum):
    """The engine that answers a command."""

    AUTO = "auto"
    SPARK = "spark"
    LOCAL = "local"


def local_path(name: str) -> str:
    """Return the path that a name or a path of a queue is on this machine's disk.

    A plain name is a path in the working directory, as in a session with a catalog in memory.
    """
    return addresses.placed(name) if "/" in name else os.path.abspath(name)  # noqa: PTH100 - a string


def is_local(name: str) -> bool:
    """Whether a queue is, or would be, on this machine's disk, by its path."""
    return _directory_of(name) is not None


def is_reached_here(name: str) -> bool:
    """Whether this process reaches a queue, and Spark would find none elsewhere.

    A path of the disk has a queue, or Spark is not set up to read it in another way. An object
    store needs a client, and Spark is not set up to commit there.
    """
    if is_on_object_store(name):
        return is_installed("obstore") and not is_spark_set_up()
    return is_local(name) and (is_queue(name) or not is_spark_set_up())


def is_written_here(output: str) -> bool:
    """Tell the same of a table of results."""
    if is_on_object_store(output):
        return is_reached_here(output)
    directory = addresses.directory_of(PlainSession(), TableAddress.of(local_path(output)))
    return directory is not None and (addresses.has_log(directory) or not is_spark_set_up())


def is_queue(name: str) -> bool:
    """Whether a queue is on this machine's disk."""
    directory = _directory_of(name)
    if directory is None:
        return False
    return all(addresses.has_log(directory.parent / log) for log in ("queue", "status"))


def is_spark_set_up() -> bool:
    """Whether paths and names may mean something else to Spark than to this process."""
    return any(map(os.environ.get, _SPARK_IS_SET_UP))


def is_spark_asked() -> bool:
    """Whether the environment names a master, packages or settings for Spark."""
    return any(map(os.environ.get, _SPARK_IS_ASKED))


def absolute(path: str) -> str:
    """Return an absolute path: the JVM may have another working directory."""
    return path if "://" in path else os.path.abspath(path)  # noqa: PTH100 - it may be a pattern


def spark_problem() -> str | None:
    """Return the package or program that Spark lacks here, in a line; ``None`` if it can run."""
    if not is_installed("pyspark"):
        return "pyspark is not installed; pip install 'spark-queue[spark]'"
    return java_problem()


def _directory_of(name: str) -> Path | None:
    """Return where the status log of a queue is or would be."""
    return addresses.directory_of(PlainSession(), QueueAddress(local_path(name)).status)
