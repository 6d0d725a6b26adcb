"""Tables that take results without Spark, under transactions of any name.

A result is there exactly once because its commit is transaction 1 of an application that its writer
names, and no name is used twice. Whether it was is asked under the right to write, which Spark's
commits of results take, too. A claim that takes long is written in parts: see ADR 53.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from spark_queue.errors import (
    FileDamagedError,
    SchemaMismatchError,
    SparkNeededError,
    SparkQueueError,
)
from spark_queue.log import addresses, kernels as pc
from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta import table_properties
from spark_queue.log.delta.claim_record import ClaimRecord, find_record
from spark_queue.log.delta.commits import OURS, read_file, summed_up
from spark_queue.log.delta.table_creation import require_plain_types
from spark_queue.log.delta.table_properties import APPENDED, OF_RESULTS, Protocol
from spark_queue.log.disk import removal
from spark_queue.log.disk.append_files import Appending
from spark_queue.log.disk.delta_rs import added_files, opened, telling, write_checkpoint
from spark_queue.log.disk.fsync import birth_of, make_directory
from spark_queue.log.disk.table_place import TablePlace
from spark_queue.log.heads import columns_of, table_of
from spark_queue.log.object.table_copy import TableCopy
from spark_queue.log.step_events import logger
from spark_queue.log.storage import WRITER

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema

#: Seconds that somebody waits to write: Spark may be at it, with millions of rows.
_PATIENCE = 600.0

#: After how many commits the log of such a table is summed up, where the table does not say.
OFTEN = 100

#: The path of a file all of whose rows were written under one name.
_MARKED = re.compile(rf"{OURS}([0-9A-Za-z]+)\.[0-9a-f-]{{36}}\.")

#: The column of the rows that says of which transaction they are.
NAME = "_claim_id"


#: The number of a claim's transaction, and of one whose items are all done, those without a row
#: too: a checkpoint of the log has it, when the commit with the claim's record is gone.
_DONE, _ALL_DONE = 1, 2


class AppendName(NamedTuple):
    """What an append is known by."""

    name: str
    number: int = _DONE
    """Counts appends of a name, where it is used more than once."""
    part: int | None = None
    """Which part of a claim it is, before the last one."""
    is_numbered: bool = False
    """Whether the name is used more than once."""

    @property
    def app(self) -> str:
        """The application, as Delta has it."""
        return self.name if self.part is None else f"{self.name}.{self.part}"

    def is_late(self, table: DeltaTable) -> bool:
        """Tell whether a table has had it, or a later one, or needs no further part."""
        last = table.transaction_version(self.app)
        is_shut = self.part is not None and table.transaction_version(self.name) is not None
        return is_shut or (last is not None and (last >= self.number or not self.is_numbered))


class ResultTable:
    """A table of results, which need not be there yet.

    Parameters
    ----------
    place : TablePlace
        Where it is, or is to be. Elsewhere than on this disk only this library writes it.
    is_synced : bool
        Whether what is written is forced to the disk before anybody is told of it.
    what, source : str
        What it is to the caller, and where its rows come from, for errors.
    """

    def __init__(
        self, place: TablePlace, *, is_synced: bool, what: str = "output", source: str = "returns"
    ) -> None:
        self._place = place
        self._is_synced = is_synced
        self._name = f"the {what} {place.url!r}"
        self._source = source

    @property
    def directory(self) -> Path:
        """Where its files are read."""
        return self._place.directory

    @property
    def location(self) -> str:
        """What it is called in any session."""
        return self._place.url if self._place.is_remote else addresses.location_of(self.directory)

    def exists(self) -> bool:
        """Tell whether the table is there: a directory that was begun is made a table of."""
        return self._place.is_made()

    def make(self, columns: pa.Schema) -> None:
        """Make the table, unless another process just did.

        Raises
        ------
        SparkNeededError
            When its columns need more than the oldest version of Delta's protocol.
        """
        from deltalake import Schema  # noqa: PLC0415 - takes a while

        require_plain_types(self._name, columns)
        schema = Schema.from_arrow(columns)
        if isinstance(self._place, TableCopy):
            self._place.make(schema.to_json(), OF_RESULTS)
        else:
            self._make_here(schema)

    def _make_here(self, schema: Schema) -> None:
        from deltalake import DeltaTable  # noqa: PLC0415 - takes a while

        make_directory(self.directory)
        with self._place.lock(WRITER, _PATIENCE):
            removal.remove_cut(self.directory)
            try:
                with telling(self.directory):
                    DeltaTable.create(
                        str(self.directory), schema, mode="error", configuration=OF_RESULTS
                    )
            except SparkQueueError:
                if not self.exists():
                    raise
            if self._is_synced:
                self._place.force()

    def require(self, columns: pa.Schema) -> pa.Schema:
        """Check that such rows fit the table now; return its columns.

        Raises
        ------
        SchemaMismatchError
            When a column is missing, or of another type.
        SparkNeededError
            When the table asks more of its writers than this one knows.
        """
        there = _schema(self._opened())
        for column in columns:
            if column.name not in there.names:
                raise SchemaMismatchError(column.name, f"is missing in {self._name}")
            kind = there.field(column.name).type
            if kind != column.type:
                where = f"in {self._name}, and {column.type} in {self._source}"
                raise SchemaMismatchError(column.name, f"is {kind} {where}")
        for column in there:
            if not column.nullable and column.name not in columns.names:
                where = f"in {self._name}, and missing in {self._source}"
                raise SchemaMismatchError(column.name, f"is NOT NULL {where}")
        return there

    def require_plain(self) -> None:
        """Check that this release knows the table's protocol; errors as for :meth:`require`."""
        self._opened()

    def is_conditional(self) -> bool:
        """Tell whether its commits are conditional PUTs, which Spark does not make."""
        return isinstance(self._place, TableCopy) and self._place.is_ours()

    def write(
        self, rows: pa.Table, name: str, metadata: str | None = None, *, is_all_done: bool = False
    ) -> bool:
        """Append the rows of a claim, by its name; False where that was used without them.

        Where all of its items are done, that is known after the commit is cleaned up, too.
        """
        number = _ALL_DONE if is_all_done else _DONE
        return self._put(rows, AppendName(name, number), metadata) or self._has_last(name)

    def write_part(self, rows: pa.Table, name: str, part: int, metadata: str) -> bool:
        """Append rows of a claim before its last ones; False where the name of the claim is used.

        A part that is there is not written again.
        """
        return self._put(rows, AppendName(name, part=part), metadata) or not self._uses(name)

    def _has_last(self, name: str) -> bool:
        """Tell whether the last part of a claim is there, or all of it."""
        record = self.record(name)
        return len(self.rows(name)) > 0 if record is None else record.part is None

    def _uses(self, name: str) -> bool:
        with self._hold() as table:
            return table.transaction_version(name) is not None

    def append(self, rows: pa.Table, name: str, version: int) -> None:
        """Append rows as a numbered transaction of a name, unless the table has had it."""
        self._put(rows, AppendName(name, version, is_numbered=True))

    def shut_out(self, name: str) -> frozenset[int]:
        """Make sure that a name is used; return the seqs of the rows that were written under it."""
        self._put(None, AppendName(name))
        # A table forgets its transactions in time, and the rows of them stay.
        return self.rows(name)

    def rows(self, name: str) -> frozenset[int]:
        """Return the seqs of the rows that were written under a name."""
        with self._hold() as table:
            return self._rows(table, name)

    def peek(self, name: str) -> None:
        """Read all that a name has, to see its errors."""
        self._rows(self._opened(), name)
        self.record(name)

    def record(self, name: str) -> ClaimRecord | None:
        """Return what the commit of a claim says of its items without a row."""
        found = find_record(self.directory, name, self._place.bring_commit)
        # Not under the right to write, for which who only looks would wait.
        if found is None and self._opened().transaction_version(name) == _ALL_DONE:
            return ClaimRecord(claim_id=name, outcomes={}, is_whole=True)
        return found

    def _put(
        self, rows: pa.Table | None, transaction: AppendName, metadata: str | None = None
    ) -> bool:
        """Append rows as a transaction; False where the table has had it, or what excludes it."""
        while True:
            with self._hold() as table:
                if transaction.is_late(table):
                    return False
                if self._commit(table, rows, transaction, metadata):
                    self._sum_up(table, table.version() + 1)
                    return True

    @contextmanager
    def _hold(self) -> Iterator[DeltaTable]:
        """Hold the write lock of the table, and yield its current state."""
        with self._place.lock(WRITER, _PATIENCE):
            yield self._opened()

    def _opened(self) -> DeltaTable:
        """Return the current table, if this release knows its protocol."""
        self._place.refresh()
        if self._place.is_remote and not self.is_conditional():
            why = "it was made by others, whose commits would be written over"
            raise SparkNeededError(f"to write to {self._name}", why)
        table = opened(self.directory)
        needs = self._why_spark(table)
        if needs is not None:
            raise SparkNeededError(f"to write to {self._name}", needs)
        return table

    def _why_spark(self, table: DeltaTable) -> str | None:
        """Say what a table asks of its writers, or readers, that only Spark may know."""
        if self._place.feature is not None:
            features = table.protocol().writer_features
            is_known = features == [self._place.feature]
            return None if is_known else f"it asks its writers for {features}"
        protocol, settings = Protocol.of(table.protocol()), table.metadata().configuration
        is_known = protocol.is_read(APPENDED) and protocol.is_written(settings, APPENDED)
        if not is_known or table_properties.is_left_to_spark(settings):
            name = TableAddress(str(self.directory), is_path=True).sql()
            return table_properties.why_spark(name, protocol, settings, APPENDED)
        if table.metadata().partition_columns:
            return f"the table is partitioned by {', '.join(table.metadata().partition_columns)}"
        for field in table.schema().fields:
            if "delta.invariants" in (field.metadata or {}):
                return f"the table has an invariant for column {field.name!r}"
        return None

    # rule again: order of forcing
    def _commit(
        self,
        table: DeltaTable,
        rows: pa.Table | None,
        transaction: AppendName,
        metadata: str | None,
    ) -> bool:
        """Commit the next version of a table; False if it is taken."""
        version, birth = table.version(), birth_of(self.directory)
        # Of what it stands on nothing may be lost either.
        self._place.secure(birth, version, is_wanted=self._is_synced)
        # Of a file with statistics of some columns only, deltalake finds nothing by the others.
        protocol, settings = Protocol.of(table.protocol()), table.metadata().configuration
        append = Appending(
            place=self._place,
            partition=None,
            ranged=(),
            mark=_mark(transaction.name),
            features=protocol.list_asking(settings),
        )
        made = append.commit(
            version + 1,
            [] if rows is None else [table_of(_schema(table), rows.num_rows, columns_of(rows))],
            transaction=(transaction.app, transaction.number),
            metadata=metadata,
            is_synced=self._is_synced,
        )
        ours = made is not None
        if not ours and not self._place.is_remote:
            raise OSError(
                f"somebody commits to {str(self.directory)!r} who does not wait for his turn"
            )
        if ours:
            self._place.note(birth, version + 1, is_forced=self._is_synced)
        return ours

    def _sum_up(self, table: DeltaTable, version: int) -> None:
        """Write down, once in a while, what all commits come to."""
        settings, protocol = table.metadata().configuration, Protocol.of(table.protocol())
        often = int(settings.get(table_properties.INTERVAL, OFTEN))
        is_due = version - (summed_up(self.directory) or 0) >= often
        if not is_due or table_properties.PARTED_CHECKPOINTS in protocol.features:
            return
        cleans_up = protocol.may_clean_up(settings)
        try:
            # On a storage somebody else may have done it.
            if version - self._place.summed_up() >= often:
                self._write_summary(table, cleans_up=cleans_up)
        except Exception:  # noqa: BLE001 - the rows are there, and the next may do it
            logger.exception("the log of %s could not be summed up", self.location)

    def _write_summary(self, table: DeltaTable, *, cleans_up: bool) -> None:
        with telling(self.directory):
            write_checkpoint(self.directory)
            table.update_incremental()
            if cleans_up:
                table.cleanup_metadata()
        self._place.put_summary(tuple)
        if cleans_up and self._place.is_remote:
            self._place.sweep(None)

    def _rows(self, table: DeltaTable, name: str) -> frozenset[int]:
        files = added_files(table).to_pylist()
        mark = OURS + _mark(name)
        wanted = [file for file in files if _may_have(file, name)]
        self._place.bring(unquote(file["path"]) for file in wanted)
        found: set[int] = set()
        for file in wanted:
            path = self.directory / unquote(file["path"])
            rows = read_file(path, ["_seq", NAME], file["size_bytes"])
            if NAME not in rows.column_names:
                continue
            ours = rows["_seq"].filter(pc.equal(_texts(rows[NAME]), name))
            if mark != OURS and file["path"].startswith(mark) and len(ours) < rows.num_rows:
                raise FileDamagedError(path, f"has rows of another claim than {name}")
            found.update(ours.to_pylist())
        return frozenset(found)


def _texts(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts as one type: who rewrites a file may keep them as another one."""
    is_one = pa.types.is_string(values.type)
    return values if is_one else pa.chunked_array([pa.array(values.to_pylist(), pa.string())])


def _mark(name: str) -> str:
    """Return what the name of a file says of its rows, where it can."""
    return f"{name}." if name.isascii() and name.isalnum() else ""


def _may_have(file: dict[str, Any], name: str) -> bool:
    """Return whether a file may have rows of a name, by its statistics."""
    whose = _MARKED.match(file["path"])
    if whose is not None and whose[1] != name:
        return False
    least, most = file.get(f"min.{NAME}"), file.get(f"max.{NAME}")
    return least is None or most is None or bool(least <= name <= most)


def _schema(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())
