"""Addresses of a queue's tables: paths, names of a catalog, and directories of this machine."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from spark_queue import checks
from spark_queue.errors import InvalidArgumentError, SparkNeededError
from spark_queue.log.session_options import PlainSession, Session
from spark_queue.wording import shorten

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+){0,2}")
_PATH_FORBIDDEN = re.compile(r"[`\x00-\x1f]")
#: A path that names no host: what comes after ``//`` is one, and of ``file:///`` there is none.
_ON_DISK = re.compile(r"(?P<scheme>file:(//)?)?(?P<path>/(?!/).*)", re.DOTALL)
#: Bytes of a folder's name, and of a path: what the tables have in it needs some more.
_LONGEST_NAME, _LONGEST_PATH = 255, 3_900
#: Schemes of object stores.
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"})
#: Of these the container stands before an ``@``.
_WITH_CONTAINER = ("abfs", "abfss")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def placed(path: str) -> str:
    """Return a name or path so that it means the same everywhere.

    A relative path is taken from the working directory of this process: SQL has none, and that of
    the JVM is where the session was started. One of a disk is written in one way only, as its locks
    are found by it: without ``//``, ``/./`` and a ``/`` at its end. A name and a URI of a store
    stay as they are.
    """
    on_disk = _ON_DISK.fullmatch(path)
    # What a .. stands for behind a link is the file system's to say.
    if on_disk is not None and ".." not in path.split("/"):
        scheme = "" if on_disk["scheme"] is None else "file:"
        return scheme + os.path.normpath(on_disk["path"])
    if "/" not in path or path.startswith("/") or _URI.match(path):
        return path
    return os.path.abspath(path)  # noqa: PTH100 - a place on a store is a string


def is_on_object_store(path: object) -> bool:
    """Tell whether a path is on a store that can refuse a second object of a name."""
    return isinstance(path, str) and urlsplit(path).scheme in _OBJECT_STORES


def is_name(path: object) -> bool:
    """Tell whether a catalog can have a queue of this name."""
    return isinstance(path, str) and _NAME.fullmatch(path) is not None


@dataclass(frozen=True, slots=True)
class TableAddress:
    """One Delta table: by path where ``is_path``, else by name."""

    target: str
    is_path: bool

    @classmethod
    def of(cls, path: str) -> TableAddress:
        """Return the table of a name, or of a path, which contains a ``/``."""
        _require_text("a table", path)
        return cls(placed(path), is_path="/" in path)

    def sql(self) -> str:
        """Return the table as SQL names it."""
        if self.is_path:
            return f"delta.`{self.target}`"
        return ".".join(f"`{part}`" for part in self.target.split("."))


@dataclass(frozen=True, slots=True)
class QueueAddress:
    """The two tables of a queue.

    A text with a ``/`` is a path, and its tables are folders in it; anything else is a table
    name, whose tables are ``<name>_queue`` and ``<name>_status``. A relative path is made absolute.
    """

    name: str

    def __post_init__(self) -> None:
        _require_text("a queue", self.name)
        if self.is_path:
            require_path("queue path", self.name)
        elif not is_name(self.name):
            raise InvalidArgumentError(
                f"queue name {shorten(self.name)}: use letters, digits and _ in at most three "
                "parts "
                "(catalog.schema.name), or a path with a /"
            )
        object.__setattr__(self, "name", placed(self.name))

    @property
    def is_path(self) -> bool:
        """Whether the queue is addressed by path."""
        return "/" in self.name

    def is_on_disk(self) -> bool:
        """Tell whether the path is one of this machine's disk, as far as it says so."""
        return _ON_DISK.fullmatch(self.name) is not None

    @property
    def queue(self) -> TableAddress:
        """The log of items."""
        return self._table("queue")

    @property
    def status(self) -> TableAddress:
        """The log of transitions: of the first reader, and of the queue's configuration."""
        return self.status_of(0)

    def status_of(self, reader: int) -> TableAddress:
        """Return the log of transitions of a reader, by its number."""
        return self._table("status" if reader == 0 else f"reader_{reader}")

    def plain_file(self) -> Path | None:
        """Return the plain file of this machine that stands where a queue by path would be."""
        if not self.is_path:
            return None
        paths = [table.target.removeprefix("file:") for table in (self.queue, self.status)]
        places = [Path(path) for path in (*paths, str(Path(paths[0]).parent))]
        return next((place for place in places if place.is_file()), None)

    def _table(self, which: str) -> TableAddress:
        if self.is_path:
            return TableAddress(f"{self.name.rstrip('/')}/{which}", is_path=True)
        return TableAddress(f"{self.name}_{which}", is_path=False)


def require_path(what: str, path: str) -> None:
    """Refuse a path that is too long, or of which a library takes something for something else.

    Parameters
    ----------
    what : str
        What is there, or is to be, for the error.
    path : str
        The path. A name without a ``/`` is none, and passes.

    Raises
    ------
    InvalidArgumentError
        It shows the path.
    """
    if "/" not in path:
        return
    require_nobody(path)
    why = ""
    if _PATH_FORBIDDEN.search(path):
        why = "has a backtick or control sign"
    elif "\\" in path:
        why = "has a backslash, which deltalake reads as /"
    elif "_delta_log" in path.split("/"):
        why = "has a folder _delta_log, which is the log of another table"
    elif path != path.encode(errors="ignore").decode():
        why = "is no text in UTF-8"
    if why:
        raise InvalidArgumentError(f"{what} {shorten(path)} {why}: use another path")
    if _ON_DISK.fullmatch(placed(path)):
        _require_lengths(what, placed(path))


def require_nobody(url: str) -> None:
    """Refuse a place that has a user or a password: each error would repeat it.

    Raises
    ------
    InvalidArgumentError
        It does not show the place.
    """
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    if at and (":" in user or parts.scheme not in _WITH_CONTAINER):
        raise InvalidArgumentError(
            "the place of a queue or a table has a user or a password: give those as storage or "
            "to the session, and a place without them"
        )


def require_table(what: str, table: object) -> None:
    """Refuse what cannot be a table's name or path, as :func:`require_path` does."""
    checks.require_text(what, table)
    require_path(what, str(table))


def _require_lengths(what: str, path: str) -> None:
    longest = max(len(name.encode()) for name in path.split("/"))
    if longest > _LONGEST_NAME or len(path.encode()) > _LONGEST_PATH:
        raise InvalidArgumentError(
            f"{what} {shorten(path)} is too long: it may have {_LONGEST_PATH:,} bytes, and "
            f"{_LONGEST_NAME} in a name"
        )


def _require_text(what: str, name: object) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InvalidArgumentError(
            f"{what} is named by a path or a table name, not by {shorten(name)}"
        )


_SCHEME = "file:"

_local: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()


def directory_of(session: Session, address: TableAddress) -> Path | None:
    """Return where a table is or would be, if that is plainly a path of this machine's disk."""
    path = address.target.removeprefix(_SCHEME)
    if not address.is_path or "%" in path or ":" in path or os.path.normpath(path) != path:
        return None
    if not path.startswith("/") or path.startswith("//"):
        return None
    if address.target.startswith(_SCHEME) or are_local(session):
        return Path(path)
    return None


def require_directory(session: Session, address: QueueAddress) -> None:
    """Refuse a queue that a process without Spark cannot have where it is named.

    Raises
    ------
    InvalidArgumentError
        When its path has something in it that Delta's libraries do not read alike.
    SparkNeededError
        When it is on a shared store, or in a catalog.
    """
    is_plain = isinstance(session, PlainSession) and session.tables is None
    if not is_plain or directory_of(session, address.status) is not None:
        return
    if not address.is_on_disk():
        raise SparkNeededError(f"queue {address.name!r}", "it is not on this machine's disk")
    raise InvalidArgumentError(
        f"queue path {shorten(address.name)}: Delta's libraries do not read % and : and .. in a "
        "path alike; use another path, and write it without .."
    )


def local_directory(location: str) -> Path | None:
    """Return the directory of a table on this machine's disk, or ``None`` for a shared store.

    The location is a path behind its scheme, in which no character has another meaning.
    """
    scheme, _, path = location.partition(":")
    if scheme != "file":
        return None
    directory = Path("/", path.lstrip("/"))
    return directory if directory.is_dir() else None


def location_of(directory: Path) -> str:
    """Return a directory as Spark names the location of the table in it."""
    return f"{_SCHEME}{directory}"


def has_log(directory: Path) -> bool:
    """Tell whether there is a Delta table in a directory, or was one begun."""
    return (directory / "_delta_log").exists()


def are_local(session: Session) -> bool:
    """Tell whether a session finds under a path what this process has put there."""
    if isinstance(session, PlainSession):
        return True
    known = _local.get(session)
    if known is None:
        with tempfile.NamedTemporaryFile(prefix="spark-queue-") as file:
            try:
                found = session.read.schema("value string").text(file.name).inputFiles()
            except Exception:  # noqa: BLE001 - any error means that there is no such file
                found = []
        known = _local[session] = any(name.startswith(_SCHEME) for name in found)
    return known
