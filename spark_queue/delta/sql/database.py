"""In-process SQL engine over tables of Arrow."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping

import pyarrow as pa

from spark_queue.delta.sql.statements import statement

#: Bytes that a decision may take before the engine goes on by files.
_MEMORY = "1GB"


class Database:
    """Tables of Arrow, and what texts make of them; it reads no files and spills what does not fit.

    Parameters
    ----------
    variants : mapping
        The file that is read for a text in the place of its own.
    """

    def __init__(self, variants: Mapping[str, str]) -> None:
        import duckdb  # noqa: PLC0415 - takes a while

        self.variants = dict(variants)
        self._there: set[str] = set()
        self._spilled = tempfile.mkdtemp(prefix="spark-queue-")
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "temp_directory": self._spilled,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }
        self._connection = duckdb.connect(config=config)
        self._connection.execute("SET enable_external_access = false")
        # As Spark sorts.
        self._connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")

    def close(self) -> None:
        """Forget the tables, and remove what was spilled."""
        self._connection.close()
        shutil.rmtree(self._spilled, ignore_errors=True)

    def give(self, name: str, rows: pa.Table) -> None:
        """Have a table under a name of the texts."""
        self._connection.register(f"sq_{name}", rows)
        self._there.add(name)

    def keep(self, name: str) -> None:
        """Compute the table of a text once for those that come after."""
        text = self._text_of(name)
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE sq_{name} AS {text}")
        self._there.add(name)

    def rows(self, name: str, limit: int = 0) -> pa.Table:
        """Return the rows of a text."""
        return self._connection.sql(self._text_of(name, limit)).to_arrow_table()

    def _text_of(self, name: str, limit: int = 0) -> str:
        # One that is computed again is made of the others.
        return statement(name, self._there - {name}, self.variants, limit)
