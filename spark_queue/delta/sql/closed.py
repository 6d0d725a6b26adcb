"""Databases of DuckDB, closed to the outside: all that the library makes are made here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Bytes that a database may take before it goes on by files.
_MEMORY = "1GB"


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
            "memory_limit": _MEMORY,
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
