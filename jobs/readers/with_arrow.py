"""Rows of a Delta table by pyarrow, as a dataset that ``deltalake`` makes."""

from __future__ import annotations

from typing import Any

import pyarrow.dataset as ds
from deltalake import DeltaTable

from answering import answer, compared


def rows(path: str, where: Any = None) -> Any:
    """Return the rows that meet a condition."""
    met = where and compared(ds.field(where[0]), *where[1:])
    return DeltaTable(path).to_pyarrow_dataset().to_table(filter=met)


if __name__ == "__main__":
    answer(rows)
