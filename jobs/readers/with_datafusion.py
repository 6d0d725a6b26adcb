"""Rows of a Delta table by DataFusion, as a table that ``deltalake`` provides."""

from __future__ import annotations

from typing import Any

from datafusion import SessionContext
from deltalake import DeltaTable

from answering import answer


def rows(path: str, where: str = "true") -> Any:
    """Return the rows that meet a condition."""
    context, table = SessionContext(), DeltaTable(path)
    if path.startswith("s3://"):
        # The table itself finds no store there, also where one is registered.
        context.register_dataset("t", table.to_pyarrow_dataset())
    else:
        context.register_table("t", table)
    return context.sql(f"SELECT * FROM t WHERE {where}").to_arrow_table()  # noqa: S608


if __name__ == "__main__":
    answer(rows)
