"""In-process SQL engine over tables of Arrow: databases of DuckDB, closed to the outside."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_queue.errors import InvalidConfigError
from spark_queue.log.disk import scratch
from spark_queue.sql.catalogue import query, statement

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
    """Return the memory setting of the environment, or the default."""
    return os.environ.get(MEMORY) or "1GB"


def memory() -> int:
    """Return the bytes that a database takes before it spills: a gigabyte by default.

    Raises
    ------
    InvalidConfigError
        When the environment has no valid size.
    """
    found = _SIZE.fullmatch(memory_setting())
    size = int(found[1]) * _BYTES[found[2]] if found else 0
    if size < _LEAST:
        raise InvalidConfigError(
            f"{MEMORY} is {memory_setting()!r}, and must be a size from 100MB, such as '4GB'"
        )
    return size


def most_rows() -> int:
    """Return how many rows a decision reads at most, by that memory."""
    return memory() // _ROW


def connect(spilled: str, statements: Iterable[str]) -> DuckDBPyConnection:
    """Return an empty database that is closed to the machine.

    No statement reads a file, or a variable of Python, installs an extension, or changes a
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
    for text in statements:
        connection.execute(text)
    # Last: nothing can be set after it. Where it spills stays open to it.
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


class OneDatabase:
    """Database that a process shares: a start takes longer than most answers.

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
        connection = self._start(scratch.begin())
        # In a child of a fork the end of a database would wait for threads that are not there.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        return connection

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._connection = None


#: By these it sorts, and replaces what matches, as Spark does.
AS_SPARK = (
    "SET GLOBAL default_null_order = 'nulls_first_on_asc_last_on_desc'",
    """CREATE MACRO regexp_replace(text, pattern, put) AS
    system.main.regexp_replace(text, pattern, replace(put, '$1', '\\1'), 'g')""",
    "CREATE MACRO get_json_object(text, path) AS json_extract_string(text, path)",
)


def _start(spilled: str) -> DuckDBPyConnection:
    return connect(spilled, AS_SPARK)


_ONE = OneDatabase(_start)


class Database:
    """Tables of Arrow and views over them; reads no files, spills what does not fit.

    Parameters
    ----------
    variants : mapping
        By the name of a view, the other view whose text is used.
    """

    #: Whether it has the draw of the jitter.
    draws_jitter = False

    #: Over how many parts Spark spreads rows where a view says so.
    parts = 1

    #: How many lines a batch has, by which Spark joins them.
    lines = 0

    def __init__(self, variants: Mapping[str, str]) -> None:
        self.variants = dict(variants)
        self._there: set[str] = set()
        self._connection = _ONE.connect()

    def close(self) -> None:
        """Forget the tables."""
        self._connection.close()

    def give(self, name: str, *rows: pa.Table) -> None:
        """Give a table a name; of several, a column that one lacks is null."""
        table = rows[0] if len(rows) == 1 else pa.concat_tables(rows, promote_options="default")
        self._connection.register(f"sq_{name}", table)
        self._there.add(name)

    def keep(self, name: str, limit: int = 0) -> None:
        """Compute a view once, as a table for later statements."""
        text = self._text_of(name, limit)
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE sq_{name} AS {text}")
        self._there.add(name)

    def rows(self, name: str, limit: int = 0) -> pa.Table:
        """Return the rows of a view."""
        return self._connection.sql(self._text_of(name, limit)).to_arrow_table()

    def find(self, name: str, limit: int = 0) -> pa.Table:
        """Return the rows of a view, which may be many, in the engine's form."""
        return self.rows(name, limit)

    def table(self, name: str) -> pa.Table:
        """Return a given or computed table, or the rows of a view."""
        if name not in self._there:
            return self.rows(name)
        return self._connection.table(f"sq_{name}").to_arrow_table()

    def query(self, text: str) -> list[dict[str, Any]]:
        """Return the few rows of a query over views."""
        # A relation is planned twice, once to know its columns.
        answer = self._connection.execute(self._whole(text))
        names = [column[0] for column in answer.description or ()]
        return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]

    def query_each(self, texts: Sequence[str]) -> list[list[dict[str, Any]]]:
        """Return the rows of several queries; shared views are computed once."""
        # One row, with each answer in a column. As a union it never ends on DuckDB 1.4 and 1.5.
        lists = (f"(SELECT list(r) FROM ({text}) r) AS n{at}" for at, text in enumerate(texts))  # noqa: S608 - our own
        (found,) = self.query(f"SELECT {', '.join(lists)}")
        return [rows or [] for rows in found.values()]

    def replace(self, name: str, key: str, rows: pa.Table) -> None:
        """Replace the rows of a computed table that have the same keys."""
        self._connection.register("sq_rows", rows)
        former = f"{key} IN (SELECT {key} FROM sq_rows)"  # noqa: S608 - our own
        self._connection.execute(f"DELETE FROM sq_{name} WHERE {former}")  # noqa: S608 - as above
        self._connection.execute(f"INSERT INTO sq_{name} FROM sq_rows")
        self._connection.unregister("sq_rows")

    def _whole(self, text: str) -> str:
        return query(text, self._there, self.variants, inlined=True)

    def forget(self, name: str) -> None:
        """Drop a computed table."""
        self._connection.execute(f"DROP TABLE sq_{name}")
        self._there.remove(name)

    def is_empty(self, name: str) -> bool:
        """Tell whether a given or computed table has no rows."""
        return not self._connection.table(f"sq_{name}").limit(1).fetchall()

    def release(self, name: str) -> None:
        """Let go of a given table, so that its memory is free."""
        self._connection.unregister(f"sq_{name}")
        self._there.remove(name)

    def _text_of(self, name: str, limit: int = 0) -> str:
        # One that is computed again is made of the others.
        return statement(name, self._there - {name}, self.variants, limit)
