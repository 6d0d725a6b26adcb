"""A log on an object store, used by a session of Spark.

Steps whose rows are in this process, and all that it reads by itself, are as without Spark. Of a
frame the tasks write the files, by the client and under the names of the log, and the driver
commits them by the one conditional PUT: no log store of Delta's is asked.
"""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as F

from spark_queue.errors import InvalidArgumentError, SetupError
from spark_queue.log import addresses
from spark_queue.log.delta.commits import PARTITION
from spark_queue.log.delta.log import APP_ID
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk.append_files import Appending
from spark_queue.log.disk.disk_storage import DiskStorage
from spark_queue.log.heads import Head, columns_of, step_tables, table_of
from spark_queue.log.object.remote_commits import FarCommits
from spark_queue.log.object.table_copy import TableCopy
from spark_queue.log.object.table_objects import commit_name
from spark_queue.log.schema import META_LANE
from spark_queue.log.spark.spark_log import SparkLog
from spark_queue.log.storage import Storage
from spark_queue.overriding import override

#: Bytes of rows, as a task has them, from which on it writes a file.
_PORTION = 64 << 20

#: What Spark says of a place that none of its file systems has, or not as others see it.
_NO_FILES = ("No FileSystem for scheme", "ClassNotFoundException", "PATH_NOT_FOUND")

_Head = TypeVar("_Head", bound=Head)


class SparkObjectLog(SparkLog[_Head]):
    """See :class:`Log`: of the objects below a prefix, in a session of Spark."""

    _is_seen: bool | None = None

    def exists(self) -> bool:
        """See :meth:`Log.exists`: this process asks the storage."""
        return DeltaLog.exists(self)

    @override
    def detail(self) -> tuple[str, str]:
        return DeltaLog.detail(self)

    def is_empty(self) -> bool:
        """See :meth:`Log.is_empty`: this process reads its heads."""
        return DeltaLog.is_empty(self)

    @override
    def drop(self) -> None:
        DeltaLog.drop(self)

    @override
    def is_followed(self) -> bool:
        return True

    def _far_commits(self) -> FarCommits | None:
        # They are in the copy.
        return None

    def _write(
        self, head: _Head, rows: DataFrame | pa.Table | None, known: int | None, *, small: bool
    ) -> bool:
        if rows is None or isinstance(rows, pa.Table):
            return DeltaLog.commit(self, head, rows, known=known, is_synced=False)
        storage = cast("Storage", self._storage)
        if not _travels(storage):
            return DeltaLog.commit(self, head, rows.toArrow(), known=known, is_synced=False)
        schema, ranged = self._writable(head.step)
        if schema is None:
            return False
        step = rows.withColumn("_step", F.lit(head.step).cast("long"))
        step = step.coalesce(1) if small else step
        return self._adopt(head, stage_frame(step, storage, schema, ranged))

    def _writable(self, step: int) -> tuple[pa.Schema | None, Sequence[str]]:
        """Return the columns of files for a step, and which are ranged; ``None`` if it is lost."""
        with self._guard:
            table = self._table()
            if not table.is_plain:
                self._needs_spark("to write its tables", self.why_spark())
            return table.schema if self.step_of(table) == step - 1 else None, table.append.ranged

    # rule again: lost step
    def _adopt(self, head: _Head, adds: list[dict[str, Any]]) -> bool:
        """Commit files that the store has, as a step; False where another has it."""
        with self._guard:
            table = self._table()
            line = step_tables(table.schema, head, None)[0]
            adds.append(self.written(META_LANE, line))
            # Upkeep commits, too, and takes no step.
            while self.step_of(table) == head.step - 1:
                version = table.version + 1
                number = (APP_ID, head.step)
                if table.append.adopt(version, adds, transaction=number, metadata=head.token):
                    self._note(table, version, is_forced=False)
                    return True
                table = self._table()
        # As those of a step that was lost: they are removed when there is time.
        cast("TableCopy", self._copy).leave(add["path"] for add in adds)
        return False

    def _read(self, version: int | None = None) -> DataFrame:
        if self._sees():
            return super()._read(version)
        if not addresses.are_local(self.session):
            self._refuse_read("its executors do not see the files of this process")
        self._bring(self.files())
        reader = self.session.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(addresses.location_of(self.directory))

    @override
    def stream(self) -> DataFrame:
        if not self._sees():
            self._refuse_read("a stream does not follow the files of this process")
        return super().stream()

    def _sees(self) -> bool:
        """Tell whether a file system of Spark has the table."""
        if self._is_seen is None:
            self._is_seen = _is_seen(self.session, f"{self.address.target}/{commit_name(0)}")
        return self._is_seen

    def _refuse_read(self, why: str) -> NoReturn:
        raise SetupError(
            f"Spark has no file system for {self.location()!r}, and {why}: give the session one, "
            "as org.apache.hadoop:hadoop-aws for s3a://"
        )

    def _needs_spark(self, what: str, why: str) -> NoReturn:
        raise InvalidArgumentError(
            f"queue table {self.address.target!r}, {what}: {why}, and on an object store Delta's "
            "own commits may be lost. A queue that Spark has made is opened without storage="
        )


def stage_frame(
    rows: DataFrame, storage: Storage, schema: pa.Schema, ranged: Sequence[str]
) -> list[dict[str, Any]]:
    """Have tasks write rows into files that no commit names, and return what one says of them.

    Parameters
    ----------
    rows : DataFrame
        They have columns of the schema; those that they lack are null.
    storage : Storage
        Where the table is; the tasks get it with its keys.
    schema : pyarrow.Schema
        The columns of a file.
    ranged : sequence of str
        The columns whose least and highest values are written down.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        adds = [json.dumps(add) for add in _write_files(batches, storage, schema, ranged)]
        yield pa.RecordBatch.from_pydict({"add": pa.array(adds, pa.string())})

    return [json.loads(row[0]) for row in rows.mapInArrow(write, "add string").collect()]


def _write_files(
    batches: Iterable[pa.RecordBatch], storage: Storage, schema: pa.Schema, ranged: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Write the rows of a task, and yield what a commit says of each file."""
    with tempfile.TemporaryDirectory(prefix="spark-queue-") as place:
        append = Appending(
            place=DiskStorage(Path(place)), partition=None, mixes=PARTITION, ranged=ranged
        )
        for portion in _portions(batches):
            rows = table_of(schema, portion.num_rows, columns_of(portion))
            for gen, part in append.parts([rows]):
                add = append.written(gen, part, is_synced=False)
                file = Path(place, add["path"])
                storage.put(add["path"], file.read_bytes())
                file.unlink()
                yield add


def _portions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held += [batch] if batch.num_rows else []
        if sum(one.nbytes for one in held) >= _PORTION:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _travels(storage: Storage) -> bool:
    """Tell whether tasks can ask the store: one in the memory of this process is not theirs."""
    with suppress(Exception):
        pickle.dumps(storage)
        return True
    return False


def _is_seen(spark: SparkSession, file: str) -> bool:
    """Tell whether a file system of a session has a file."""
    try:
        return bool(spark.read.schema("value string").text(file).inputFiles())
    except Exception as exc:
        if not any(sign in str(exc) for sign in _NO_FILES):
            raise
    return False
