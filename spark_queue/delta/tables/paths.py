"""Paths of this machine's disk, as Spark means them: what can be known of a table without a query.

What a path without a scheme stands for is the session's to say: on a cluster it may be a shared
store. A session is asked once.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from spark_queue.delta.tables.address import QueueAddress, TableAddress
from spark_queue.delta.tables.seals import read_actions
from spark_queue.delta.tables.wishes import PlainSession, Session
from spark_queue.errors import InvalidArgumentError, SparkNeededError
from spark_queue.wording import shorten

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def first_id(directory: Path) -> str | None:
    """Return the id that a table got with its first commit; ``None`` where that is gone."""
    try:
        text = (directory / "_delta_log" / f"{0:020}.json").read_text(encoding="utf-8")
        actions = read_actions(text)
    except (OSError, ValueError):
        return None
    ids = [action["metaData"]["id"] for action in actions if "metaData" in action]
    return str(ids[0]) if ids else None


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
