"""Rows of a Delta table by dask, whose frames are those of pandas."""

from __future__ import annotations

from typing import Any

import dask
import dask_deltatable
import pyarrow as pa

from answering import answer, compared

# Else it reads bytes, and booleans beside nulls, as texts.
dask.config.set({"dataframe.convert-string": False})


def rows(path: str, where: Any = None) -> Any:
    """Return the rows that meet a condition."""
    frame = dask_deltatable.read_deltalake(path)
    if where is not None:
        column = frame[where[0]]
        met = column.isna() if where[1] == "IS NULL" else compared(column, *where[1:])
        frame = frame[met]
    return pa.Table.from_pandas(frame.compute(scheduler="synchronous"), preserve_index=False)


if __name__ == "__main__":
    answer(rows)
