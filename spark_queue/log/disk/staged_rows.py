"""Rows on their way into a queue: files that tasks write, and one commit takes."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from spark_queue.errors import FileGoneError
from spark_queue.log.storage import ask_all
from spark_queue.overriding import override

if TYPE_CHECKING:
    from spark_queue.log.storage import Storage

#: Where they lie in the directory of a status log: to Delta a name with ``_`` is no data.
_DIRECTORY = "_staged"

#: How old a file is that nobody commits any more: its task was done so long ago.
_LOST = timedelta(days=7)


class Staging:
    """Files below the directory of a table."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def stage(self, batches: Iterable[pa.RecordBatch]) -> str | None:
        """Write the rows of a task into a file, and return its name; ``None`` where it has none."""
        name = f"{_DIRECTORY}/{uuid.uuid4().hex}.parquet"
        return name if _write(self._directory / name, batches) else None

    def read(self, names: Sequence[str]) -> pa.Table:
        """Return the rows of files, in the order of the files."""
        return pa.concat_tables([pq.read_table(self._directory / name) for name in names])

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, if they are there."""
        for name in names:
            (self._directory / name).unlink(missing_ok=True)


class FarStaging(Staging):
    """Objects below the prefix of a table; those of who was killed go with its other objects."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @override
    def stage(self, batches: Iterable[pa.RecordBatch]) -> str | None:
        with tempfile.TemporaryDirectory(prefix="spark-queue-") as place:
            name = Staging(Path(place)).stage(batches)
            if name is not None:
                self._storage.put(name, Path(place, name).read_bytes())
        return name

    @override
    def read(self, names: Sequence[str]) -> pa.Table:
        return pa.concat_tables(ask_all(self._read_one, names))

    def _read_one(self, name: str) -> pa.Table:
        content = self._storage.read(name)
        if content is None:
            raise FileGoneError(f"{self._storage.url}/{name}")
        return pq.read_table(pa.BufferReader(content))

    @override
    def remove(self, names: Iterable[str]) -> None:
        self._storage.delete(names)


def sweep(directory: Path) -> None:
    """Remove the files below a table's directory whose writers were killed."""
    before = time.time() - _LOST.total_seconds()
    for path in (directory / _DIRECTORY).glob("*.parquet"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < before:
                path.unlink()


def _write(path: Path, batches: Iterable[pa.RecordBatch]) -> bool:
    """Write rows into a file, and tell whether there were any."""
    writer = None
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
    return writer is not None
