"""Rows on their way into a queue: files that tasks write, and one commit takes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

#: Where they lie in the directory of a status log: to Delta a name with ``_`` is no data.
_DIRECTORY = "_staged"

#: How old a file is that nobody commits any more: its task was done so long ago.
_LOST = timedelta(days=7)


def stage(directory: Path, batches: Iterable[pa.RecordBatch]) -> str | None:
    """Write the rows of a task into a file of its own; ``None`` where there are none."""
    writer, path = None, directory / _DIRECTORY / f"{uuid.uuid4().hex}.parquet"
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if writer is None:
                path.parent.mkdir(exist_ok=True)
                writer = pq.ParquetWriter(path, batch.schema)
            writer.write_batch(batch)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        if writer is not None:
            writer.close()
    return None if writer is None else str(path)


def read(paths: Sequence[str]) -> pa.Table:
    """Return the rows of files, in the order of the files."""
    return pa.concat_tables([pq.read_table(path) for path in paths])


def remove(paths: Iterable[str]) -> None:
    """Remove files, if they are there."""
    for path in paths:
        Path(path).unlink(missing_ok=True)


def sweep(directory: Path) -> int:
    """Remove the files of writers that were killed, and return how many."""
    before, removed = time.time() - _LOST.total_seconds(), 0
    for path in (directory / _DIRECTORY).glob("*.parquet"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < before:
                path.unlink()
                removed += 1
    return removed
