"""Logs of each kind, made for one exercise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from obstore.store import MemoryStore
from s3fs import S3FileSystem

from spark_queue.log.addresses import QueueAddress, TableAddress
from spark_queue.log.delta import completeness
from spark_queue.log.delta.commits import Commit, LogFile
from spark_queue.log.delta.log import Log
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.heads import StatusHead, following
from spark_queue.log.log_kinds import TableSource
from spark_queue.log.object.table_copy import TableCopy
from spark_queue.log.object_tables import ObjectTables
from spark_queue.log.output.outputs import ResultTable
from spark_queue.log.schema import CONFIG, META_LANE, STATUS_COLUMNS
from spark_queue.log.session_options import PlainSession, Session, spark_of
from spark_queue.log.storage import Storage
from spark_queue.session import DURABILITY
from spark_queue.state import catch_up, commit_step
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.testing.in_memory import MemoryTables
from tests.logs.disk_objects import DiskObjects
from tests.logs.memory_storage import MemoryStorage

#: Columns that the exercise reads.
COLUMNS = ("_gen", "_kind", "_step", "_seq", "_body")


def rows(*seqs: int, gen: int = 0) -> pa.Table:
    """Return rows of items."""
    return pa.table(
        {
            "_gen": pa.array([gen] * len(seqs), pa.int32()),
            "_kind": ["item"] * len(seqs),
            "_seq": pa.array(seqs, pa.int64()),
        }
    )


def settings(text: str) -> pa.Table:
    """Return a row that is found by its kind and step."""
    return pa.table({"_gen": pa.array([META_LANE], pa.int32()), "_kind": [CONFIG], "_body": [text]})


@dataclass
class TestedLog:
    """A log as the exercise asks it."""

    __test__ = False

    session: Session
    name: str
    directory: Path | None = None
    """Where its files are, if on this disk."""
    by_spark: bool = False
    """Whether its steps are frames of Spark."""
    tables: TableSource | None = None
    """Who keeps the tables of a session of Spark, if not itself."""
    store: Store = field(init=False)

    def __post_init__(self) -> None:
        self.store = Store.of(self.session, QueueAddress(self.name), tables=self.tables)

    @property
    def log(self) -> Log[StatusHead]:
        """The log."""
        return self.store.status

    def open_again(self) -> TestedLog:
        """Return the log as a process sees it that knows nothing of it."""
        catch_up.forget(self.store.handle.place.identity())
        return TestedLog(self.session, self.name, self.directory, self.by_spark, self.tables)

    def create(self, *, replaces: bool = True) -> None:
        """Make the table."""
        self.log.create(STATUS_COLUMNS.json, replaces=replaces)

    def head(self) -> StatusHead:
        """Return the newest head, of a log that is whole."""
        found = completeness.newest_head("log", "status", self.log, self.directory, None)
        return found or StatusHead()

    def append(self, head: StatusHead, rows: pa.Table | None) -> bool:
        """Append a step, and tell whether it is ours; rows that are a frame are left to Spark."""
        given: Any = rows
        if self.by_spark and rows is not None:
            given = spark_of(self.session, "the exercise").createDataFrame(rows)
        return commit_step._append(Snapshot(self.store), "status", head, given, small=True)

    def append_here(self, head: StatusHead, rows: pa.Table) -> bool:
        """Append a step whose rows are in this process."""
        return commit_step._append(Snapshot(self.store), "status", head, rows, small=True)

    def add(self, *seqs: int) -> StatusHead:
        """Append the next step, which nobody else makes."""
        head = following(self.head())
        assert self.append(head, rows(*seqs))
        return head

    def version(self, known: int | None = None) -> int | None:
        """Return the newest version."""
        return self.log.newest(known)

    def follow(self, since: int) -> list[tuple[Commit, list[dict[str, Any]]]]:
        """Return the commits after a version, with the rows that they added."""
        newest = self.version(since)
        assert newest is not None
        made = self.log.follow(since, newest)
        return list(zip(made, self._rows_of(made), strict=True))

    def _rows_of(self, made: Sequence[Commit]) -> Iterator[list[dict[str, Any]]]:
        log = self.store.native("status")
        for commit in made:
            if log is not None:
                yield log.rows_of(commit.files, COLUMNS).to_pylist()
            elif commit.step is not None:
                found = self.store.rows_since("status", commit.step - 1, COLUMNS).to_pylist()
                yield [row for row in found if row["_step"] == commit.step]
            else:
                yield []

    @property
    def rows_of_files(self) -> bool:
        """Whether this process reads the files by itself."""
        return self.store.native("status") is not None

    @property
    def rows_here(self) -> Any:
        """The log as this process reads it by itself."""
        log = self.store.native("status")
        assert log is not None
        return log

    @property
    def storage(self) -> Storage:
        """The objects of the log."""
        if self.directory is not None:
            return DiskObjects(self.directory)
        found: Storage | None = self.rows_here._storage
        assert found is not None
        return found

    def sum_up(self) -> StatusHead:
        """Write a checkpoint after some more steps; return the newest head."""
        vars(self.rows_here._table())["interval"] = 5
        while not self.rows_here.sum_up():
            self.add(self.head().step + 1)
        return self.head()

    def files(self) -> list[LogFile]:
        """Return the files that are read."""
        found: list[LogFile] = self.rows_here.files()
        return found

    def seqs(self) -> list[int]:
        """Return the items of all rows, in order."""
        if self.by_spark:
            found = self.store.rows_since("status", 0, COLUMNS)["_seq"].to_pylist()
        else:
            found = self.rows_here.rows_of(self.rows_here.files(), COLUMNS)["_seq"].to_pylist()
        return sorted(seq for seq in found if seq is not None)


def memory_log() -> TestedLog:
    """Return a log in memory, that is not made yet."""
    return TestedLog(PlainSession({}, MemoryTables()), "memory:/exercise")


@dataclass
class StorageTables:
    """Tables on storages of a kind, by their urls."""

    make: Callable[[str], Storage]
    kept: str = "disk"
    storages: dict[str, Storage] = field(default_factory=dict)

    def storage(self, url: str) -> Storage:
        """Return the storage of a table."""
        if url not in self.storages:
            self.storages[url] = self.make(url)
        return self.storages[url]

    def log(self, session: Session, address: TableAddress, parse: Callable[[str], Any]) -> Log[Any]:
        """See :class:`TableSource`."""
        return DeltaLog(session, address, parse, self.storage(address.target))

    def tables_beside(self, address: TableAddress) -> set[str]:
        """See :class:`TableSource`."""
        place = address.target.rpartition("/")[0] + "/"
        return {url.removeprefix(place) for url in self.storages if url.startswith(place)}

    def results(self, url: str, what: str, source: str) -> ResultTable:
        """See :class:`TableSource`."""
        place = TableCopy(self.storage(url), is_log=False)
        return ResultTable(place, is_synced=False, what=what, source=source)


def storage_log(make: Callable[[str], Storage] = MemoryStorage) -> TestedLog:
    """Return a log on a storage of a kind, that is not made yet."""
    return TestedLog(PlainSession({}, StorageTables(make)), "memory:///q")


def disk_log(place: str) -> TestedLog:
    """Return a log on a disk that is used as any storage is: by its calls, and through a copy."""
    return storage_log(lambda url: DiskObjects(Path(place, url.rpartition("/")[2])))


def object_log(store: object | None = None) -> TestedLog:
    """Return a log on an object store, that is not made yet."""
    return TestedLog(PlainSession({}, ObjectTables(store or MemoryStore())), "memory:///q")


def file_system(options: Mapping[str, Any]) -> S3FileSystem:
    """Return a file system of fsspec for a store that is reached by options of obstore."""
    return S3FileSystem(
        key=options["access_key_id"],
        secret=options["secret_access_key"],
        endpoint_url=options["endpoint"],
        client_kwargs={"region_name": options["region"]},
        config_kwargs={"s3": {"addressing_style": "path"}},
        skip_instance_cache=True,
    )


def file_system_log(files: object) -> TestedLog:
    """Return a log on a file system of fsspec, that is not made yet."""
    return TestedLog(PlainSession({}, ObjectTables(files)), "s3://bucket/q")


def local_log(place: str, durability: str = "process") -> TestedLog:
    """Return a log on this disk, that is not made yet."""
    session = PlainSession({DURABILITY: durability})
    return TestedLog(session, f"{place}/q", Path(place, "q", "status"))
