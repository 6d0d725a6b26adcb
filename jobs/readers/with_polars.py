"""Rows of a Delta table by polars."""

from __future__ import annotations

from typing import Any

import polars as pl

from answering import answer, compared


def rows(path: str, where: Any = None) -> Any:
    """Return the rows that meet a condition."""
    frame = pl.scan_delta(path)
    if where is not None:
        frame = frame.filter(compared(pl.col(where[0]), *where[1:]))
    return frame.collect().to_arrow()


if __name__ == "__main__":
    answer(rows)
