"""The queue under examination: its readers, tables, instant, and name in commands."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from spark_queue.commands.upgrade import oldest_format
from spark_queue.doctor.table import TableHere
from spark_queue.errors import LogDamagedError
from spark_queue.log import addresses
from spark_queue.log.heads import Registered, StatusHead
from spark_queue.log.schema import FORMAT_VERSION
from spark_queue.log.session_options import PlainSession, kept_by
from spark_queue.log.settings import Settings
from spark_queue.log.step_events import LogName
from spark_queue.report.finding import StorageUse, Thresholds
from spark_queue.report.model import Vitals
from spark_queue.report.reading import read_vitals
from spark_queue.sql.file_rows import log_of
from spark_queue.state.store import Store
from spark_queue.views.answers import ViewSource
from spark_queue.wording import shell_command

if TYPE_CHECKING:
    from spark_queue.doctor.table import CheckedTable


@dataclass(frozen=True)
class ReaderSubject:
    """A reader of the queue that claims."""

    store: Store
    facts: Registered
    head: StatusHead
    settings: Settings

    @property
    def name(self) -> str:
        """Its name; empty for the default reader."""
        return self.facts.name


class Subject:
    """A queue under examination. Each of its facts is read once.

    Parameters
    ----------
    store : Store
        The queue, of all its readers.
    thresholds : Thresholds
        From where on something is worth a word.
    source : ViewSource, optional
        Who answers for its readers.
    """

    def __init__(
        self, store: Store, thresholds: Thresholds, source: ViewSource | None = None
    ) -> None:
        self.store = store
        self.thresholds = thresholds
        self._source = source
        self.now: datetime = store.clock.now()
        self._vitals: dict[int, Vitals] = {}

    @cached_property
    def readers(self) -> list[ReaderSubject]:
        """The readers that claim, whose positions are there."""
        return [self._see(reader) for reader in self._claiming if not is_lost(reader)]

    @property
    def format(self) -> int:
        """The oldest format that a log of a reader or a table has; the first is always there."""
        first = self.store.of_reader(0)
        formats = [reader.settings.format for reader in self.readers]
        return oldest_format(first, [first.settings(first.status_head()).format, *formats])

    @cached_property
    def lost_readers(self) -> list[Store]:
        """Readers whose status log is gone."""
        return [reader for reader in self._claiming if is_lost(reader)]

    @cached_property
    def _claiming(self) -> list[Store]:
        facts = self.store.queue_head().readers
        return [self.store.of_reader(number) for number in facts if not facts[number].streams]

    def _see(self, reader: Store) -> ReaderSubject:
        head = reader.status_head()
        return ReaderSubject(reader, reader.registered(), head, reader.settings(head))

    @cached_property
    def tables(self) -> list[CheckedTable]:
        """The tables of the queue: its items, and the status log of each reader.

        Of a queue in memory there is nothing to look after.
        """
        if kept_by(self.store.session) == "memory":
            return []
        return [self._table(self.store, "queue"), *map(self.table_of, self.readers)]

    def table_of(self, reader: ReaderSubject) -> CheckedTable:
        """Return the status log of a reader."""
        return self._table(reader.store, "status", reader.name)

    def _table(self, store: Store, which: LogName, reader: str = "") -> CheckedTable:
        if store.native(which) is not None or isinstance(store.session, PlainSession):
            return TableHere(store, which, reader, log_of(store, which))
        from spark_queue.doctor.far import TableFar  # noqa: PLC0415 - takes Spark

        return TableFar(store, which, reader)

    def vitals(self, reader: ReaderSubject) -> Vitals:
        """Return the vitals of a reader's report."""
        if reader.store.reader not in self._vitals:
            self._vitals[reader.store.reader] = read_vitals(
                reader.store, window=self.thresholds.window, source=self._source
            )
        return self._vitals[reader.store.reader]

    @cached_property
    def storage(self) -> StorageUse | None:
        """The storage that the queue takes; ``None`` in memory."""
        if not self.tables:
            return None
        directory = self.store.handle.place.directory()
        kinds = sum((Counter(table.sizes()) for table in self.tables), Counter[str]())
        return StorageUse(
            size=kinds.total(),
            kinds=dict(sorted(kinds.items())),
            free=None if directory is None else shutil.disk_usage(directory).free,
            format=self.format,
            newest_format=FORMAT_VERSION,
        )

    def require_positions(self) -> None:
        """Raise where a reader's status log is gone: a request would create it again.

        Raises
        ------
        LogDamagedError
            It names the reader.
        """
        for reader in self.lost_readers:
            why = f"the position of reader {reader.registered().name!r} is gone"
            raise LogDamagedError(reader.name, "status", 1, why)

    def command(self, verb: str, *words: str, reader: str = "") -> str:
        """Return a command on the queue, to be pasted into a shell."""
        of = ("--reader", reader) if reader else ()
        return shell_command("spark-queue", verb, self.store.name, *words, *of)


def is_lost(reader: Store) -> bool:
    """Whether a reader is registered but its status log is gone."""
    directory = addresses.directory_of(reader.session, reader.status.address)
    there = addresses.has_log(directory) if directory is not None else reader.status.exists()
    return not there
