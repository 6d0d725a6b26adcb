"""Databases of DuckDB, closed to the outside: all that the library makes are made here."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from spark_queue.errors import InvalidConfigError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: The variable of the environment that says how much memory SQL in this process may take.
MEMORY = "SPARK_QUEUE_MEMORY"

_SIZE = re.compile(r"(\d{1,6})(MB|GB)")
_BYTES = {"MB": 10**6, "GB": 10**9}

#: Below this a database cannot even spill.
_LEAST = 100 * 10**6

#: Bytes of a row as a decision reads it.
_ROW = 100


def memory_setting() -> str:
    """Return how much memory SQL in this process may take, as the environment says it."""
    return os.environ.get(MEMORY) or "1GB"


def memory() -> int:
    """Return how many bytes a database may take before it goes on by files: a gigabyte by default.

    Raises
    ------
    InvalidConfigError
        When the environment says something that is no size.
    """
    found = _SIZE.fullmatch(memory_setting())
    size = int(found[1]) * _BYTES[found[2]] if found else 0
    if size < _LEAST:
        raise InvalidConfigError(
            f"{MEMORY} is {memory_setting()!r}, and must be a size from 100MB, such as '4GB'"
        )
    return size


def most_rows() -> int:
    """Return how many rows a decision reads at most: what fits into that memory."""
    return memory() // _ROW


def connect(spilled: str, statements: Iterable[str]) -> DuckDBPyConnection:
    """Return an empty database that knows nothing of the machine.

    No text of SQL reads a file, or a variable of Python, installs an extension, or changes a
    setting. Rows come in as tables that a program registers.

    Parameters
    ----------
    spilled : str
        The one directory that it uses, for what does not fit into memory.
    statements : iterable of str
        What is executed before it is closed.
    """
    import duckdb  # noqa: PLC0415 - takes a while

    connection = duckdb.connect(
        config={
            "memory_limit": f"{memory()}B",
            "temp_directory": spilled,
            "allow_community_extensions": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }
    )
    for statement in statements:
        connection.execute(statement)
    # Last: nothing can be set after it. Where it spills stays open to it.
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


class OneDatabase:
    """The one database of a process for all who ask alike: a start takes longer than most answers.

    Parameters
    ----------
    start : callable
        Returns an empty database that spills into a directory.
    """

    def __init__(self, start: Callable[[str], DuckDBPyConnection]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._connection: DuckDBPyConnection | None = None
        if hasattr(os, "register_at_fork"):
            # The threads of the other are the parent's.
            os.register_at_fork(after_in_child=self._forget)

    def connect(self) -> DuckDBPyConnection:
        """Return a connection whose temporary tables are its own."""
        with self._lock:
            if self._connection is None:
                self._connection = self._make()
            return self._connection.cursor()

    def _make(self) -> DuckDBPyConnection:
        spilled = tempfile.mkdtemp(prefix="spark-queue-")
        atexit.register(_remove, spilled, os.getpid())
        connection = self._start(spilled)
        # In a child of a fork the end of a database would wait for threads that are not there.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        return connection

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._connection = None


def _remove(directory: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)
