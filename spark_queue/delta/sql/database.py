"""In-process SQL engine over tables of Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_queue.delta.sql.closed import OneDatabase, connect
from spark_queue.delta.sql.statements import statement

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def _start(spilled: str) -> DuckDBPyConnection:
    # As Spark sorts.
    return connect(spilled, ["SET GLOBAL default_null_order = 'nulls_first_on_asc_last_on_desc'"])


_ONE = OneDatabase(_start)


class Database:
    """Tables of Arrow, and what texts make of them; it reads no files and spills what does not fit.

    Parameters
    ----------
    variants : mapping
        The file that is read for a text in the place of its own.
    """

    #: Whether it has the draw of the jitter.
    draws_jitter = False

    #: Over how many parts Spark spreads rows where a text says so.
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
        """Have a table under a name of the texts; of several, what one lacks is null."""
        table = rows[0] if len(rows) == 1 else pa.concat_tables(rows, promote_options="default")
        self._connection.register(f"sq_{name}", table)
        self._there.add(name)

    def keep(self, name: str, limit: int = 0) -> None:
        """Compute the table of a text once for those that come after."""
        text = self._text_of(name, limit)
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE sq_{name} AS {text}")
        self._there.add(name)

    def rows(self, name: str, limit: int = 0) -> pa.Table:
        """Return the rows of a text."""
        return self._connection.sql(self._text_of(name, limit)).to_arrow_table()

    def find(self, name: str, limit: int = 0) -> pa.Table:
        """Return the rows of a text, which may be many, as this engine has them."""
        return self.rows(name, limit)

    def table(self, name: str) -> pa.Table:
        """Return a table that was given or computed, or the rows of a text."""
        if name not in self._there:
            return self.rows(name)
        return self._connection.table(f"sq_{name}").to_arrow_table()

    def is_empty(self, name: str) -> bool:
        """Tell whether a table that was given or computed has no rows."""
        return not self._connection.table(f"sq_{name}").limit(1).fetchall()

    def _text_of(self, name: str, limit: int = 0) -> str:
        # One that is computed again is made of the others.
        return statement(name, self._there - {name}, self.variants, limit)
