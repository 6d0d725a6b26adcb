"""Rows of a Delta table by the SQL of ``deltalake``."""

from __future__ import annotations

from typing import Any

from deltalake import DeltaTable, QueryBuilder

from answering import answer


def rows(path: str, where: str = "true") -> Any:
    """Return the rows that meet a condition."""
    asked = QueryBuilder().register("t", DeltaTable(path))
    return asked.execute(f"SELECT * FROM t WHERE {where}").read_all()  # noqa: S608


if __name__ == "__main__":
    answer(rows)
