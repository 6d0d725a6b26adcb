"""A queue in memory: the queue without Spark over tables that no disk has."""

from __future__ import annotations

import json
import re
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue import checks
from spark_queue.clock import Clock
from spark_queue.columns import kinds
from spark_queue.columns.arrow import arrow_types
from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError, QueueNotFoundError
from spark_queue.local_queue import LocalQueue, create_in
from spark_queue.log.addresses import QueueAddress, TableAddress
from spark_queue.log.delta import table_creation
from spark_queue.log.delta.commits import PARTITION, Commit, LogFile
from spark_queue.log.delta.log import Log
from spark_queue.log.heads import Head, columns_of, step_rows, table_of
from spark_queue.log.log_columns import fields_of
from spark_queue.log.log_kinds import TableSource
from spark_queue.log.schema import SKIPPING_COLUMNS
from spark_queue.log.session_options import PlainSession, Session
from spark_queue.log.step_events import Listener
from spark_queue.overriding import override
from spark_queue.state import catch_up
from spark_queue.state.store import Store
from spark_queue.wording import shorten

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Head = TypeVar("_Head", bound=Head)


class MemoryTables(TableSource):
    """The tables of one queue. They are gone with the last handle of it."""

    kept = "memory"

    def __init__(self) -> None:
        self._id = uuid.uuid4().hex
        self._logs: dict[str, MemoryLog[Any]] = {}
        """By where each table is."""

    def log(self, session: Session, address: TableAddress, parse: Callable[[str], Any]) -> Log[Any]:
        """Return the table at an address as a log, whether or not it is there."""
        del session
        return self._logs.setdefault(address.target, MemoryLog(self._id, address, parse))

    @override
    def tables_beside(self, address: TableAddress) -> set[str]:
        del address
        return set()

    @override
    def results(self, url: str, what: str, source: str) -> None:
        # Queues in memory reach no store.
        pass


class MemoryLog(Log[_Head]):
    """Log of rows in memory, shared by all who use it.

    Parameters
    ----------
    tables : str
        What tells its tables from others of their name.
    address : TableAddress
        Its name.
    parse : callable
        Reads a head from the text of its row.
    """

    def __init__(self, tables: str, address: TableAddress, parse: Callable[[str], _Head]) -> None:
        # Not that of the queue, whose tables are to go with its last handle.
        super().__init__(PlainSession(), address, parse)
        self._tables = tables
        self._lock = threading.RLock()
        self._numbers = count(1)
        self._begin(None)

    def _begin(self, schema: str | None) -> None:
        """Begin with columns, as Spark writes a schema in JSON; or with no table."""
        self._columns = schema
        self._schema = pa.schema([]) if schema is None else _arrow(schema)
        self._files: dict[str, LogFile] = {}
        self._rows: dict[str, pa.Table] = {}
        self._step = 0
        """The newest step."""
        self._commits = [Commit()]
        """What each version did; the first one made the table."""

    @override
    def exists(self) -> bool:
        return self._columns is not None

    @override
    def detail(self) -> tuple[str, str]:
        return self.address.target, self._tables

    @override
    def is_near(self) -> bool:
        return True

    @override
    def newest(self, known: int | None) -> int | None:
        del known
        return len(self._commits) - 1 if self.exists() else None

    @override
    def follow(self, since: int, until: int) -> list[Commit]:
        return self._commits[since + 1 : until + 1]

    @override
    def is_readable(self, known: int | None = None) -> bool:
        return self.exists()

    @override
    def has_files(self) -> bool:
        # Readers of files are for rows that exceed the memory.
        return False

    @override
    def drop(self) -> None:
        with self._lock:
            self._begin(None)

    @override
    def create(
        self, schema: str, *, replaces: bool = True, skipping: str = SKIPPING_COLUMNS
    ) -> None:
        del skipping
        if not table_creation.is_plain(schema):
            self._needs_spark("to make its tables", table_creation.why_spark(fields_of(schema)))
        with self._lock:
            if replaces or not self.exists():
                self._begin(schema)

    @override
    def append(
        self, head: Head, rows: DataFrame | pa.Table | None, *, is_synced: bool = True
    ) -> bool:
        del is_synced
        with self._lock:
            if self._step != head.step - 1:
                return False
            whole = step_rows(self._schema, head, rows)
            new = [self._keep(gen, part) for gen, part in _parts(whole)]
            self._files.update({file.path: file for file in new})
            self._commits.append(Commit(step=head.step, token=head.token, files=new))
            self._step = head.step
        return True

    @override
    def version_at(self, head: Head) -> int | None:
        return len(self._commits) - 1 if self._step == head.step else None

    @override
    def files(self) -> list[LogFile]:
        self._require_table()
        with self._lock:
            return list(self._files.values())

    @override
    def rows_of(self, files: Iterable[LogFile], columns: Sequence[str]) -> pa.Table:
        wanted = list(columns)
        try:
            parts = [self._rows[file.path].select(wanted) for file in files]
        except KeyError as exc:
            raise FileNotFoundError(str(exc)) from exc
        return pa.concat_tables(parts) if parts else self._schema.empty_table().select(wanted)

    @override
    def schema(self) -> str:
        self._require_table()
        return str(self._columns)

    @override
    def columns(self) -> list[str]:
        return list(self._schema.names)

    @override
    def add_columns(self, fields: Sequence[Mapping[str, Any]]) -> None:
        plain = json.loads(self.schema())
        plain["fields"] += fields
        with self._lock:
            self._columns = json.dumps(plain)
            self._schema = arrow_types.schema_of(kinds.read(self._columns))
            for path, rows in self._rows.items():
                self._rows[path] = table_of(self._schema, rows.num_rows, columns_of(rows))
            self._commits.append(Commit(redefines=True))

    @override
    def written(self, gen: int, rows: pa.Table) -> dict[str, Any]:
        file = self._keep(gen, rows)
        return {"path": file.path, "file": file}

    @override
    def replace(
        self, gone: Sequence[LogFile], adds: Sequence[Mapping[str, Any]], *, takes_away: bool
    ) -> bool:
        new: list[LogFile] = [add["file"] for add in adds]
        with self._lock:
            if any(file.path not in self._files for file in gone):
                return False
            for file in gone:
                del self._files[file.path], self._rows[file.path]
            self._files.update({file.path: file for file in new})
            paths = frozenset(file.path for file in gone)
            self._commits.append(
                Commit(files=new, gone=paths, takes_away=True)
                if takes_away
                else Commit(merged=new, gone=paths)
            )
        return True

    @override
    def discard(self, adds: Iterable[Mapping[str, Any]]) -> None:
        for add in adds:
            self._rows.pop(add["path"], None)

    def _require_table(self) -> None:
        if not self.exists():
            raise QueueNotFoundError(self.address.target)

    def _keep(self, gen: int, rows: pa.Table) -> LogFile:
        """Keep rows of one partition, out of sight until a commit names them."""
        ends = {name: pc.min_max(rows[name]).as_py() for name in ("_step", "_seq")}
        file = LogFile(
            path=str(next(self._numbers)),
            gen=gen,
            size=rows.num_rows,
            rows=rows.num_rows,
            ranges={
                name: (end["min"], end["max"])
                for name, end in ends.items()
                if end["min"] is not None
            },
        )
        self._rows[file.path] = rows
        return file


@lru_cache(maxsize=16)
def _arrow(schema: str) -> pa.Schema:
    """Return the columns as Arrow has them; those of the status log are the same for all queues."""
    return arrow_types.schema_of(kinds.read(schema))


def _parts(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Return the rows of each partition."""
    gens = rows[PARTITION].to_pylist()
    # Rows of a partition mostly lie together, and to slice them copies nothing.
    for gen in sorted(set(gens)):
        first = gens.index(gen)
        many = gens.count(gen)
        if gens[first : first + many] == [gen] * many:
            yield gen, rows.slice(first, many)
        else:
            yield gen, rows.filter(pc.equal(rows[PARTITION], gen))


_NAME = re.compile(r"[A-Za-z0-9_-]+")

#: The longest name, in characters.
_LONGEST = 200

_numbers = count(1)


def memory_queue(
    schema: str,
    config: QueueConfig | None = None,
    *,
    name: str | None = None,
    clock: Clock | None = None,
    listener: Listener | None = None,
) -> LocalQueue:
    """Make a queue that is in the memory of this process, and gone with its last handle.

    It is a :class:`~spark_queue.LocalQueue`, with its verbs, results, errors and rules: the same
    code decides each step, and only the place where steps are kept is another. No process but this
    one sees it, and nothing of it is written to a disk.

    Parameters
    ----------
    schema : str
        The columns of an item, as DDL: ``"path string, tenant string"``.
    config : QueueConfig, optional
        Keys, bounds and retries. Default: one line, first in, first out.
    name : str, optional
        What messages call it, of letters, digits, ``_`` and ``-``: ``"files"`` is
        ``memory:/files``. By default a number. It is no address: two of a name are two queues.
    clock : Clock, optional
        Asked once an operation; the system's by default. A
        :class:`~spark_queue.testing.ManualClock` is moved by hand.
    listener : callable, optional
        Called with :class:`~spark_queue.StepFacts` after every step, on the thread that made it.

    Raises
    ------
    InvalidArgumentError
        When the name has another character.
    InvalidConfigError
        When a key is no expression over the columns.
    SparkNeededError
        When only Spark computes a key, or keeps a type; also where more than 50,000 items are open.

    Examples
    --------
    >>> queue = memory_queue("path string", QueueConfig(dedup_key="path"))
    >>> queue.enqueue([{"path": "a"}, {"path": "a"}]).duplicates
    1
    >>> with queue.claim() as claim:
    ...     [row["path"] for row in claim.rows]
    ['a']
    >>> queue.counts()["acked"]
    1
    """
    checks.optional(checks.require_text, "name", name)
    if name is not None and (not _NAME.fullmatch(name) or len(name) > _LONGEST):
        raise InvalidArgumentError(
            f"name is {shorten(name)}: use at most {_LONGEST} letters, digits, _ and -"
        )
    tables = MemoryTables()
    session = PlainSession(tables=tables)
    address = QueueAddress(f"memory:/{name or next(_numbers)}")
    store = Store.of(session, address, clock, listener)
    queue = create_in(store, schema, config)
    weakref.finalize(tables, catch_up.forget, store.handle.place.identity())
    return queue
