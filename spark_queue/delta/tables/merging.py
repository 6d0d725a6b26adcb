"""Small files of a log made fewer, and rows taken out of it, while others go on committing.

Files are read and written before the right to write is taken, which is held for the commit alone.
Who reads the table finds the same rows before it and after it; if the process is killed in between,
a file is left that no commit names (:mod:`~spark_queue.delta.tables.sweeping`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.tables import turnstile
from spark_queue.delta.tables.files import NOBODYS, LogFile
from spark_queue.delta.tables.local_log import LocalLog
from spark_queue.delta.tables.log import Log
from spark_queue.delta.tables.wishes import SMALL
from spark_queue.errors import StepLostError

#: Rows, and files, that are merged at once: so much is in memory, or lost to who is stopped.
_ROWS, _FILES = 500_000, 100


def merging(log: LocalLog[Any]) -> Iterator[int]:
    """Merge files that are small, and leave alone those that would take long.

    Yields
    ------
    int
        After each file that was read, or written, how many have become one by that.
    """
    for files in list(groups(log.files())):
        there = {file.path for file in log.files()}
        # They may lie in files that were replaced for the sake of others.
        if all(file.path in there for file in files):
            yield from _merging(log, files)


def remove(
    log: Log[Any],
    may_have: Callable[[LogFile], bool],
    is_gone: Callable[[pa.Table], pa.ChunkedArray],
) -> int:
    """Take rows out of a log, as one commit, by who has the right to write; return how many.

    Parameters
    ----------
    may_have : callable
        Tells of a file whether it may have such rows.
    is_gone : callable
        Tells of the rows of a file which of them go.

    Raises
    ------
    StepLostError
        When somebody has committed who did not ask for the right to: no row was taken out.
    """
    gone: list[LogFile] = []
    adds: list[dict[str, Any]] = []
    count = 0
    for file in filter(may_have, log.files()):
        rows = log.rows_of([file], log.columns())
        goes = pc.fill_null(is_gone(rows), False)
        going = pc.sum(goes).as_py() or 0
        if not going:
            continue
        count += going
        gone.append(file)
        if going < rows.num_rows:
            adds.append(log.written(file.gen, rows.filter(pc.invert(goes))))
    if gone and not log.replace(gone, adds, takes_away=True):
        log.discard(adds)
        raise StepLostError("a removal of rows", 1)
    return count


def _merging(log: LocalLog[Any], files: Sequence[LogFile]) -> Iterator[int]:
    parts = []
    for file in files:
        parts.append(log.rows_of([file], log.columns()))
        yield 0
    add = log.written(files[0].gen, pa.concat_tables(parts))
    may_be_named = False
    try:
        yield 0
        with turnstile.holding(str(log.directory), log.directory):
            # A commit may stand, though what comes after it fails: then a sweep asks the log.
            may_be_named = True
            may_be_named = is_done = log.replace(files, [add], takes_away=False)
    finally:
        if not may_be_named:
            log.discard([add])
    yield len(files) if is_done else 0


def groups(files: Iterable[LogFile]) -> Iterator[list[LogFile]]:
    """Return small files that are to become one: of one partition, in the order of their steps."""
    small = [file for file in files if file.size < SMALL and file.gen != NOBODYS]
    for _, of_gen in groupby(sorted(small, key=_place), key=lambda file: file.gen):
        group: list[LogFile] = []
        for file in of_gen:
            if group and not _has_room(group, file):
                yield from _worth(group)
                group = []
            group.append(file)
        yield from _worth(group)


def _place(file: LogFile) -> tuple[int, float]:
    return file.gen, file.ranges.get("_step", (float("inf"), None))[0]


def _has_room(group: Sequence[LogFile], file: LogFile) -> bool:
    whole = (*group, file)
    return (
        len(whole) <= _FILES
        and sum(one.size for one in whole) <= SMALL
        and sum(one.rows for one in whole) <= _ROWS
    )


def _worth(group: list[LogFile]) -> Iterator[list[LogFile]]:
    if len(group) > 1:
        yield group
