"""The queue without Spark: the same tables, steps and rules, in a plain Python process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa

from spark_queue import checks, tracing
from spark_queue.clock import Clock, SystemClock
from spark_queue.config import QueueConfig, require_config
from spark_queue.delta.commands import (
    enqueue,
    making,
)
from spark_queue.delta.commands.rows import check_rows, columns_of as _columns_of
from spark_queue.delta.input import kinds
from spark_queue.delta.input.kinds import Field
from spark_queue.delta.input.plain import arrow_keys
from spark_queue.delta.input.plain.arrow import schema_of
from spark_queue.delta.input.plain.ddl_parser import parse_fields
from spark_queue.delta.replica.request import EnqueueRules, OnDuplicate, OnFull
from spark_queue.delta.store import existence
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.address import QueueAddress, is_name
from spark_queue.delta.tables.facts import Listener
from spark_queue.delta.tables.wishes import PlainSession
from spark_queue.delta.upkeep import clones
from spark_queue.delta.views import arrow_views
from spark_queue.delta.views.ends import AsOf
from spark_queue.durability import StepDurability, require_step_durability
from spark_queue.errors import InvalidArgumentError, QueueNotFoundError
from spark_queue.local_claim import Worked
from spark_queue.maintaining import Maintaining
from spark_queue.opened import ReaderFacts, ReaderRegistry, drop_queue
from spark_queue.results import Affected, EnqueueResult, Lag
from spark_queue.session import DURABILITY
from spark_queue.tracing import Trace
from spark_queue.wording import shorten

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.types import StructType

    from spark_queue.doctor.finding import Checkup, Thresholds

#: Rows to enqueue: one or many dictionaries, or a table.
Rows: TypeAlias = "Mapping[str, Any] | Sequence[Mapping[str, Any]] | pa.Table | pd.DataFrame"


class LocalQueue(Worked, Maintaining, ReaderRegistry["LocalReader"]):
    """A queue on this machine's disk, in a process without Spark.

    It is the queue that :class:`~spark_queue.DeltaQueue` works with: any number of processes, with
    Spark or without, enqueue, claim and settle at the same time. Steps take milliseconds. What only
    Spark can do is refused as :class:`~spark_queue.SparkNeededError`: keys that it alone computes,
    and queues with more open items than a process keeps in memory.

    Make one with :meth:`create` or :func:`spark_queue.open`. A handle may be used by several
    threads.

    Examples
    --------
    >>> import tempfile, spark_queue
    >>> from spark_queue import QueueConfig
    >>> place = tempfile.mkdtemp() + "/files"
    >>> queue = spark_queue.LocalQueue.create(place, "path string", QueueConfig(dedup_key="path"))
    >>> queue.enqueue([{"path": "a"}, {"path": "a"}]).duplicates
    1
    >>> with queue.claim(10) as claim:
    ...     [row["path"] for row in claim.rows]
    ['a']
    >>> queue.counts()["acked"]
    1
    """

    @classmethod
    def create(
        cls,
        path: str | Path,
        schema: str,
        config: QueueConfig | None = None,
        *,
        durability: StepDurability = "disk",
        clock: Clock | None = None,
        listener: Listener | None = None,
    ) -> LocalQueue:
        """Make a new queue.

        Parameters
        ----------
        path : str or Path
            Where its tables are to be.
        schema : str
            The columns of an item, as DDL: ``"path string, tenant string"``.
        config : QueueConfig, optional
            Keys, limits and retries. Default: one line, first in, first out.
        durability : "disk" or "process"
            What a step survives when it is told: a power cut, or the end of this process.
        clock : Clock, optional
            Asked once an operation; the system's by default.
        listener : callable, optional
            Called with :class:`StepFacts` after every step, on the thread that made it.

        Raises
        ------
        QueueExistsError
            When there is a queue, or any table in its place.
        InvalidConfigError
            When a key is no expression over the columns.
        SparkNeededError
            When only Spark computes a key, or keeps a type.
        """
        return cls._create(_store(path, durability, clock, listener), schema, config)

    @classmethod
    def _create(cls, store: Store, schema: str, config: QueueConfig | None) -> LocalQueue:
        columns, settings = parse_fields(schema), require_config(config)
        kinds.require_columns(columns)
        arrow_keys.require_keys(columns, settings)
        making.create(store, kinds.to_json(columns)["fields"], settings)
        return cls(store)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        durability: StepDurability = "disk",
        clock: Clock | None = None,
        listener: Listener | None = None,
    ) -> LocalQueue:
        """Open a queue that exists; parameters as for :meth:`create`.

        Raises
        ------
        QueueNotFoundError
            When there is no queue, or what is there is not one.
        FormatVersionError
            When a newer release wrote it.
        """
        store = _store(path, durability, clock, listener)
        if is_name(path) and not existence.exists(store):
            by_spark = f"a table name of a catalog takes DeltaQueue.open(spark, {path!r})"
            raise QueueNotFoundError(store.name, f"there is no such path; {by_spark}")
        store.settings(existence.require_exists(store))
        return cls(store)

    @classmethod
    def exists(cls, path: str | Path) -> bool:
        """Tell whether there is a queue at this path."""
        return existence.exists(_store(path, "disk", None, None))

    @classmethod
    def drop(cls, path: str | Path, *, dry_run: bool = False) -> Affected | None:
        """Remove a queue and everything in it.

        Parameters
        ----------
        path
            As for :meth:`open`.
        dry_run : bool
            Only count its items, by state, and show the first: what is returned then.

        Raises
        ------
        QueueNotFoundError, WriterLockedError, FencedError, FormatVersionError
            As for :meth:`DeltaQueue.drop`.
        """
        return drop_queue(_store(path, "disk", None, None), dry_run=dry_run)

    def enqueue(
        self,
        rows: Rows,
        order_by: str | Sequence[str] | None = None,
        *,
        on_duplicate: OnDuplicate = "skip",
        on_full: OnFull = "raise",
        trace: Trace | Sequence[Trace | None] | None = None,
    ) -> EnqueueResult:
        """Add rows, all in one step.

        Parameters
        ----------
        rows : dict, list of dict, pyarrow.Table or pandas.DataFrame
            The queue's columns; ``available_at``, ``expires_at``, ``cost`` and ``max_attempts`` may
            come with them.
        order_by : str or sequence of str, optional
            Columns by which the rows enter; else they keep their order.
        on_duplicate : "skip" or "raise"
            What to do with rows whose key is taken: refuse them and say so, or refuse all.
        on_full : "raise" or "partial"
            Where a reader has no room: refuse all, or take what fits. Only Spark counts that.
        trace : str, mapping or sequence of them, optional
            The trace that the items belong to, as for :meth:`DeltaQueue.enqueue`.

        Raises
        ------
        SchemaMismatchError
            When a column is missing, unknown or of another type, or a cost or a limit is out of
            bounds.
        DuplicateItemError
            With ``on_duplicate="raise"``, when a key is taken. Nothing was written.
        ReaderFullError
            With ``on_full="raise"``, when a reader has no room. Nothing was written.
        SparkNeededError
            When more than ten million rows would be read.
        """
        store = self._main
        rules = EnqueueRules(on_duplicate=on_duplicate, on_full=on_full)
        given: object = [dict(rows)] if isinstance(rows, Mapping) else rows
        traces = tracing.stored_traces(trace)
        at = Snapshot(store)
        frame = check_rows(store, given, order_by=order_by, at=at)
        tracing.require_one_each(traces, len(frame.rows), is_ordered=order_by is not None)
        frame = frame.traced(traces)
        done = enqueue.entered(at, frame, rules)
        return EnqueueResult(
            step=done.step,
            inserted=done.inserted,
            duplicates=done.duplicates,
            refused=done.refused,
            read_outcomes=lambda: arrow_views.outcomes(store, done),
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns of an item.

        Raises
        ------
        SparkNeededError
            When only Spark reads the tables.
        """
        return schema_of(_columns_of(self._main))

    def status(self, as_of: AsOf = None) -> pa.Table:
        """Return one row an item: the user's columns, its keys, its state and its times.

        Parameters
        ----------
        as_of : int or datetime, optional
            A step of the status log, or an instant, to look back at; now by default.

        Returns
        -------
        pyarrow.Table
            In the order of ``_seq``. ``_state`` is ready, claimed, acked, dead, expired or
            cancelled.

        Raises
        ------
        InvalidArgumentError
            When the queue has no such step, or a time has no offset.
        SparkNeededError
            When only Spark reads the tables.
        """
        return arrow_views.status(self._store, self._ends(as_of))

    def dead(self, as_of: AsOf = None) -> pa.Table:
        """Return the dead letters, as :meth:`status` shows them, with ``_error``.

        ``_successor`` is the item as which a letter was redriven, null where it was not.
        """
        return arrow_views.dead(self._store, self._ends(as_of))

    def history(self, seq: int) -> pa.Table:
        """Return every transition of an item, oldest first."""
        checks.require_seq("seq", seq)
        return arrow_views.history(self._store, seq)

    def clone(self, path: str | Path) -> LocalQueue:
        """Make a queue with all that this one has, to try workers, weights and limits on it.

        What it has, and the errors, are those of :meth:`DeltaQueue.clone`.

        Notes
        -----
        The files of the rows are shared by hard links, or copied to another file system; so it
        takes the time of a step or two, during which nobody writes to this one.
        """
        return LocalQueue(clones.clone(self._main, _as_path(path)))

    def _columns_of(self, schema: StructType | str) -> tuple[Field, ...]:
        return parse_fields(cast("str", schema))

    def _make_reader(self, reader: Store) -> LocalReader:
        return LocalReader(self._main, reader)

    def __repr__(self) -> str:
        return f"LocalQueue({self.name!r})"


class LocalReader(ReaderFacts, LocalQueue):  # type: ignore[misc]
    """A queue without Spark as one of its readers sees it; made by :meth:`LocalQueue.reader`.

    What it claims, settles, pauses and configures is its own; the items are shared.
    """

    def lag(self) -> Lag:
        """Return how far the reader is behind, in items, bytes, time and steps.

        Raises
        ------
        SparkNeededError
            When only Spark counts the bytes of a column, or reads the logs.
        """
        return arrow_views.lag(self._store)

    def __repr__(self) -> str:
        return f"LocalReader({self.name!r}, {self.reader!r})"


def _store(
    path: str | Path, durability: StepDurability, clock: Clock | None, listener: Listener | None
) -> Store:
    require_step_durability(durability)
    session = PlainSession({DURABILITY: durability})
    return Store.of(session, QueueAddress(_as_path(path)), clock, listener)


def _as_path(path: str | Path) -> str:
    """Return a path: a name without a / is a table of a catalog elsewhere; here it is a path."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgumentError(f"path is {shorten(path)}: it must be a text or a Path")
    place = os.fspath(path)
    checks.require_text("path", place)
    return place if "/" in place else f"./{place}"


def create_in(store: Store, schema: str, config: QueueConfig | None) -> LocalQueue:
    """Make a queue where a store is; what is asked and raised is as for :meth:`LocalQueue.create`.

    Parameters
    ----------
    store : Store
        Where it is to be, with a session that has no Spark.
    """
    return LocalQueue._create(store, schema, config)  # noqa: SLF001 - it is no user's business


def store_of(queue: LocalQueue) -> Store:
    """Return the logs behind a queue, as its reader sees them."""
    checks.require_kind("queue", queue, LocalQueue)
    return queue._store  # noqa: SLF001 - it is no user's business


def main_store_of(queue: LocalQueue) -> Store:
    """Return the logs behind a queue, of all its readers."""
    return queue._main  # noqa: SLF001 - as above


def columns_of(queue: LocalQueue) -> tuple[Field, ...]:
    """Return the user's columns.

    Raises
    ------
    SparkNeededError
        When only Spark reads the tables.
    """
    return _columns_of(queue._main)  # noqa: SLF001 - as above


def examine(path: str, limits: Thresholds) -> Checkup:
    """Look for what is wrong with a queue, also with one that does not open.

    Raises
    ------
    QueueNotFoundError
        When there is none.
    """
    from spark_queue.doctor import examine as examination  # noqa: PLC0415 - takes a while

    store = Store.of(PlainSession(), QueueAddress(path), SystemClock())
    return examination.examine(store, limits)
