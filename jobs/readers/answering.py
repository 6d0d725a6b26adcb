"""What each program of this folder has around its function: questions come in, rows go out.

``python jobs/readers/with_duckdb.py PATH`` prints the rows of a table, and those of a condition
where it is given, too, to an engine that takes SQL. Without words a program reads pickled pairs of
a path and a condition, and writes a pickled list: rows as Arrow's stream, or the error as text.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

#: Returns the rows of a path under a condition, as Arrow has them: a table, or what has its stream.
Rows = Callable[..., Any]


def compared(column: Any, word: str, value: Any) -> Any:
    """Return a column compared with a value, for engines that have expressions."""
    if word == "IS NULL":
        return column.is_null()
    return column == value if word == "=" else column < value if word == "<" else column > value


def answer(rows: Rows, start: Callable[[Iterable[str]], None] = lambda _: None) -> None:
    """Answer what the command line asks, or else the standard input.

    Parameters
    ----------
    rows : callable
        Returns the rows of a path under a condition.
    start : callable, optional
        Is given the paths that are asked about, before the first is.
    """
    if sys.argv[1:]:
        start(sys.argv[1:2])
        print(pa.table(rows(*sys.argv[1:])).to_pylist())  # noqa: T201
        return
    # What an engine prints is not among the answers.
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    asked = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own
    start(dict.fromkeys(path for path, _ in asked))
    told = [_told(rows, *one) for one in asked]
    sink.write(pickle.dumps(told))
    sink.close()


def _told(rows: Rows, path: str, where: Any) -> bytes | str:
    try:
        table = pa.table(rows(path, where))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return bytes(sink.getvalue().to_pybytes())
    except Exception as exc:  # noqa: BLE001 - whatever an engine raises is its answer
        return f"{type(exc).__name__}: {exc}"
