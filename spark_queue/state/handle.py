"""Session, place and identity of an opened queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spark_queue.clock import Clock
from spark_queue.log import addresses
from spark_queue.log.addresses import QueueAddress, TableAddress
from spark_queue.log.delta import integrity
from spark_queue.log.delta.log import Log
from spark_queue.log.heads import QueueHead, StatusHead, status_head
from spark_queue.log.log_kinds import TableSource, log_of, tables_of
from spark_queue.log.session_options import PlainSession, Session
from spark_queue.log.step_events import Listener
from spark_queue.memory.waiting.processes import Owner
from spark_queue.state.step_line import StepLine

if TYPE_CHECKING:
    from spark_queue.log.disk.staged_rows import Staging

_Head = TypeVar("_Head", QueueHead, StatusHead)

#: Called between the staging of a step and its commit; tests put another party's step there.
Hook = Callable[[str], None]


class QueuePlace:
    """The place of a queue's tables.

    Parameters
    ----------
    session : SparkSession or PlainSession
        What the queue was opened with.
    address : QueueAddress
        The queue's name or path.
    tables : TableSource, optional
        Who keeps the tables, if not this machine's disk or the session.
    """

    def __init__(
        self, session: Session, address: QueueAddress, tables: TableSource | None = None
    ) -> None:
        self._session, self._tables = session, tables
        self._logs: dict[str, Log[Any]] = {}
        self._first = self.log(address.status, status_head)
        self._is_path = address.is_path
        self._location: str | None = None
        self._name = self._identity = ""
        self._directory: Path | None = None
        self._birth: tuple[int, int] | None = None
        self._directories: dict[str, Path] = {}

    @property
    def tables(self) -> TableSource | None:
        """The tables' source, if not this machine's disk or the session."""
        if isinstance(self._session, PlainSession):
            return self._tables or tables_of(self._session)
        return self._tables

    def log(self, address: TableAddress, parse: Callable[[str], _Head]) -> Log[_Head]:
        """Return a log of the queue, the same for all its handles."""
        if address.target not in self._logs:
            self._logs[address.target] = log_of(self._session, address, parse, self._tables)
        return self._logs[address.target]

    def location(self) -> str:
        """Return where the queue is, as its catalog or path says."""
        if self._location is None:
            location, key = self._first.detail()
            directory = addresses.local_directory(location)
            self._directories, self._directory = {}, directory
            self._birth = integrity.birth(directory)
            self._name = location if directory is None else str(directory.resolve())
            self._identity = f"{self._name} {key}"
            # Last: by it other threads see that all the rest is there.
            self._location = location
        return self._location

    def identity(self) -> str:
        """Return the key of this queue in the caches of this process.

        It is the queue's place and the id of its first status log: a queue created there later is
        another one. On this machine's disk, handles of the old queue notice that, too.
        """
        birth = integrity.birth(self.directory())
        if birth != self._birth:
            self._birth = birth
            for log in self._logs.values():
                log.forget()
            if birth is not None:
                self._location = None
                self.location()
        return self._identity

    def name(self) -> str:
        """Return the queue's place in its one canonical spelling, for locks."""
        self.location()
        return self._name

    def directory(self) -> Path | None:
        """Return the directory of the first status log, if that is on this machine's disk."""
        self.location()
        return self._directory

    def staging(self) -> Staging:
        """Return where tasks put rows that a step is to take."""
        return self._first.staging()

    def directory_of(self, log: Log[Any]) -> Path | None:
        """Return the directory of a log on this machine's disk."""
        first = self.directory()
        if first is None or not self._is_path:
            return None if first is None else log.find_directory()
        table = log.address.target
        if table not in self._directories:
            self._directories[table] = first.parent / table.rpartition("/")[2]
        return self._directories[table]

    def is_local(self) -> bool:
        """Whether the queue is on this machine's disk."""
        return self.directory() is not None


@dataclass(slots=True)
class Handle:
    """An opened queue: session, place, clock and listener.

    Attributes
    ----------
    session : SparkSession or PlainSession
        What the caller opened it with.
    address : QueueAddress
        The queue's name or path.
    clock : Clock
        Asked once by each operation.
    listener : callable, optional
        Called with :class:`StepFacts` after every step.
    holder : str
        The front that this handle writes for; empty for none.
    is_native : bool
        Whether steps are committed without Spark wherever their rows are in this process.
    tables : TableSource, optional
        Who keeps the tables of a session of Spark, if not itself.
    around : callable, optional
        Put around each handler that is to work on the items without Spark; tests fail items there.
    """

    session: Session
    address: QueueAddress
    clock: Clock
    listener: Listener | None = None
    hook: Hook | None = None
    holder: str = ""
    is_native: bool = False
    around: Callable[[Any], Any] | None = None
    tables: TableSource | None = None
    place: QueuePlace = field(init=False)
    owner: Owner | None = field(init=False, repr=False)
    """Whose session of Spark it is."""
    line: StepLine[Any, Any] = field(init=False, repr=False, default_factory=StepLine)
    """Where threads wait whose rows enter in one step."""

    def __post_init__(self) -> None:
        is_plain = isinstance(self.session, PlainSession)
        self.owner = None if is_plain else Owner("the session of Spark")
        addresses.require_directory(self.session, self.address)
        self.place = QueuePlace(self.session, self.address, self.tables)
