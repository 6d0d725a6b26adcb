"""Rows of the two logs, as tables of Arrow.

They are read from the files, one after the other and without a query engine, which would take
longer to load than small ones take to read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.input import kinds
from spark_queue.delta.input.plain.rows import sizes_of
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.commits import LogFile
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.log import Log
from spark_queue.delta.tables.schema import (
    ITEM,
    META_LANE,
    OPEN_LANE,
    REFUSED,
    REFUSED_LANE,
    RENEWAL,
    RENEWAL_LANE,
    SOURCE_LANE,
)
from spark_queue.errors import SparkNeededError

_T = TypeVar("_T")

#: Seqs up to which it is asked for each whether a file may have it.
_FEW = 1_000


def log_of(store: Store, which: LogName) -> Log[Any]:
    """Return a log of a queue.

    Raises
    ------
    SparkNeededError
        When only Spark reads it.
    """
    log = store.native(which)
    if log is None:
        why = "its tables ask for more than plain reads and appends"
        raise SparkNeededError(f"to look at {store.name!r}", why)
    return log


def sizes_in(store: Store, rows: pa.Table) -> pa.Array:
    """Return the bytes of each item, by the user's columns."""
    return sizes_of(rows, user_fields(store))


#: The lanes of kinds of rows; items are in generations.
_LANES = {REFUSED: REFUSED_LANE, RENEWAL: RENEWAL_LANE}


def user_fields(store: Store) -> list[kinds.Field]:
    """Return the user's columns.

    Raises
    ------
    SparkNeededError
        When only Spark reads the logs.
    """
    users = set(store.user_columns())
    return [one for one in kinds.read(log_of(store, "queue").schema()) if one.name in users]


def rows_of(
    store: Store,
    which: LogName,
    columns: Sequence[str],
    may_matter: Callable[[LogFile], bool] | None = None,
    *,
    kind: str = ITEM,
    most: float = math.inf,
) -> pa.Table:
    """Return some columns of the rows of a kind.

    Parameters
    ----------
    store : Store
        The queue.
    which : "queue" or "status"
        The log.
    columns : sequence of str
        The columns; ``_kind`` comes with them.
    may_matter : callable, optional
        Says of a file whether it is to be read.
    kind : str
        The kind of the rows.
    most : float
        Rows up to which the log is read.

    Raises
    ------
    SparkNeededError
        When only Spark reads the log, or it has more rows than that.
    """

    def read() -> pa.Table:
        return pa.concat_tables(parts_of(store, which, columns, may_matter, kind=kind, most=most))

    return once_more(read)


def once_more(read: Callable[[], _T]) -> _T:
    """Read files, and once more where one was merged meanwhile: its rows are in another."""
    try:
        return read()
    except OSError:
        return read()


def item_files(log: Log[Any]) -> list[LogFile]:
    """Return the files of a log that have rows of items, or what was refused."""
    others = (META_LANE, OPEN_LANE, RENEWAL_LANE, SOURCE_LANE)
    return [file for file in log.files() if file.gen not in others]


def renewal_files(log: Log[Any]) -> list[LogFile]:
    """Return the files of a status log that have renewals."""
    return [file for file in log.files() if file.gen == RENEWAL_LANE]


def settings_files(log: Log[Any]) -> list[LogFile]:
    """Return the files of a status log that may have rows by which a queue was configured.

    They lie beside the heads, of which each step has one: a file of one row has only that, unless
    its step has another file there.
    """
    files = [file for file in log.files() if file.gen == META_LANE]
    of_steps = Counter(file.ranges.get("_step") for file in files)
    return [f for f in files if f.rows > 1 or of_steps[f.ranges.get("_step")] > 1]


def parts_of(
    store: Store,
    which: LogName,
    columns: Sequence[str],
    may_matter: Callable[[LogFile], bool] | None = None,
    *,
    kind: str = ITEM,
    most: float = math.inf,
) -> Iterator[pa.Table]:
    """Return the same rows part by part, for what is more than a process keeps; the first is empty.

    Raises
    ------
    OSError
        When a file was merged meanwhile; and those of :func:`rows_of`.
    """
    wanted, log = list(dict.fromkeys(["_kind", *columns])), log_of(store, which)
    lane = _LANES.get(kind)
    files = [file for file in log.files() if (file.gen >= 0 if lane is None else file.gen == lane)]
    if may_matter is not None:
        files = [file for file in files if may_matter(file)]
    if sum(file.rows for file in files) > most:
        why = "it has more rows than a process looks at"
        raise SparkNeededError(f"to look at {store.name!r}", why)
    yield log.rows_of([], wanted)
    for rows in log.parts_of(files, wanted, may_matter):
        yield rows.filter(pc.equal(rows["_kind"], kind))


def having(seqs: pa.ChunkedArray) -> Callable[[LogFile], bool]:
    """Return what tells whether a file may have one of some items."""
    if len(seqs) > _FEW:
        ends = pc.min_max(seqs).as_py()
        return lambda file: file.may_have("_seq", ends["min"], ends["max"])
    wanted = seqs.to_pylist()
    return lambda file: any(file.may_have("_seq", seq, seq) for seq in wanted)


def beside(rows: pa.Table, seqs: pa.ChunkedArray) -> pa.Table:
    """Return the row of each item, null where it has none; of each there is one at most."""
    return rows.take(pc.index_in(seqs, value_set=rows["_seq"].combine_chunks()))
