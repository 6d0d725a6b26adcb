"""The queue without Spark: the same tables, steps and rules, in a plain Python process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from spark_queue import checks, commands, state, tracing, views
from spark_queue.claim import LocalClaim
from spark_queue.clock import Clock, SystemClock
from spark_queue.columns import arrow, kinds
from spark_queue.config import QueueConfig, require_config
from spark_queue.durability import StepDurability, require_step_durability
from spark_queue.errors import InvalidArgumentError, QueueNotFoundError
from spark_queue.log import object_tables
from spark_queue.log.addresses import QueueAddress, is_name
from spark_queue.log.object_tables import StorageOptions
from spark_queue.log.session_options import PlainSession
from spark_queue.queue import EnqueueCall, Queue, drop_queue
from spark_queue.queue_views import ReaderFacts
from spark_queue.session import DURABILITY
from spark_queue.state import existence
from spark_queue.state.store import Store
from spark_queue.wording import shorten
from spark_queue.working import Working

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_queue.columns.kinds import Field
    from spark_queue.commands.rows import Enqueued, MarkedRows
    from spark_queue.log.step_events import Listener
    from spark_queue.report.finding import Checkup, Thresholds
    from spark_queue.results import Affected
    from spark_queue.state.snapshot import Snapshot
    from spark_queue.views.views import QueueViews


class LocalVerbs(Working["pa.Table", "pa.Schema", LocalClaim]):
    """The verbs of a reader in this process: its frames are tables of Arrow."""

    _claim_type = LocalClaim
    _runner = "spark_queue.processing.local_processing"

    @property
    def _views(self) -> QueueViews[pa.Table, pa.Schema]:
        return views.views.ARROW_VIEWS


class LocalQueue(LocalVerbs, Queue["pa.Table", "pa.Schema", LocalClaim, "LocalReader"]):
    """A queue on this machine's disk, or on an object store, in a process without Spark.

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
        storage: StorageOptions | None = None,
        exist_ok: bool = False,
    ) -> LocalQueue:
        """Make a new queue.

        Parameters
        ----------
        path : str or Path
            Where its tables are to be: on this machine's disk, or on an object store, as in
            ``"s3://bucket/files"``.
        schema : str
            The columns of an item, as DDL: ``"path string, tenant string"``.
        config : QueueConfig, optional
            Keys, bounds and retries. Default: one line, first in, first out.
        durability : "disk" or "process"
            What a step survives once its call returns: a power cut, or the end of this process.
        clock : Clock, optional
            Asked once an operation; the system's by default.
        listener : callable, optional
            Called with :class:`StepFacts` after every step, on the thread that made it.
        storage : mapping, obstore.store.ObjectStore or fsspec.AbstractFileSystem, optional
            Options of ``obstore.store.from_url``, a store of a whole bucket, or a file system, for
            a queue that is on an object store. By default the environment has keys and region.
        exist_ok : bool
            Open a queue that is there, if it has the same columns, keys and ``dedup_scope``. Its
            live settings stay as they are. Of several processes that call this at once one makes
            the queue, and all get it.

        Raises
        ------
        QueueExistsError
            When there is a queue, or any table in its place; with ``exist_ok``, when that is no
            queue, or one with other columns, keys or ``dedup_scope``. Nothing was written.
        InvalidConfigError
            When a key is no expression over the columns.
        SparkNeededError
            When only Spark computes a key, or keeps a type.
        SetupError
            When the object store does not refuse a second object of a name.
        """
        checks.require_flag("exist_ok", exist_ok)
        store = _store(path, durability, clock, listener, storage)
        return cls._create(store, schema, config, exist_ok=exist_ok)

    @classmethod
    def _create(
        cls, store: Store, schema: str, config: QueueConfig | None, *, exist_ok: bool = False
    ) -> LocalQueue:
        columns, settings = arrow.arrow_types.parse_fields(schema), require_config(config)
        fields = kinds.to_json(columns)["fields"]
        # What only Spark makes may be there, and is opened here.
        if not exist_ok or not commands.create_drop.is_made(store, fields, settings):
            kinds.require_columns(columns)
            arrow.arrow_keys.require_keys(columns, settings)
            commands.create_drop.create(store, fields, settings, exist_ok=exist_ok)
        return cls(store)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        durability: StepDurability = "disk",
        clock: Clock | None = None,
        listener: Listener | None = None,
        storage: StorageOptions | None = None,
    ) -> LocalQueue:
        """Open a queue that exists; parameters as for :meth:`create`.

        Raises
        ------
        QueueNotFoundError
            When there is no queue, or something else in its place.
        FormatVersionError
            When a newer release wrote it.
        """
        store = _store(path, durability, clock, listener, storage)
        if is_name(path) and not existence.exists(store):
            by_spark = f"a table name of a catalog takes DeltaQueue.open(spark, {path!r})"
            raise QueueNotFoundError(store.name, f"there is no such path; {by_spark}")
        store.settings(existence.require_exists(store))
        return cls(store)

    @classmethod
    def exists(cls, path: str | Path, *, storage: StorageOptions | None = None) -> bool:
        """Whether there is a queue at this path."""
        return existence.exists(_store(path, "disk", None, None, storage))

    @classmethod
    def drop(
        cls, path: str | Path, *, dry_run: bool = False, storage: StorageOptions | None = None
    ) -> Affected | None:
        """Remove a queue and everything in it.

        Parameters
        ----------
        path, storage
            As for :meth:`open`. On an object store no other process may work with it any more.
        dry_run : bool
            Only count its items, by state, and show the first: what is returned then.

        Raises
        ------
        QueueNotFoundError, WriterLockedError, FencedError, FormatVersionError
            As for :meth:`DeltaQueue.drop`.
        """
        return drop_queue(_store(path, "disk", None, None, storage), dry_run=dry_run)

    def _enter(self, call: EnqueueCall) -> Enqueued:
        given = [dict(call.rows)] if isinstance(call.rows, Mapping) else call.rows
        order, main = cast("str | None", call.order_by), self._main

        def check() -> tuple[Snapshot, MarkedRows]:
            at = state.snapshot.Snapshot(main)
            return at, commands.rows.check_rows(main, given, order_by=order, at=at)

        at, frame = state.steps.known_first(main, check)
        tracing.require_one_each(call.trace, len(frame.rows), is_ordered=order is not None)
        marked = frame.with_trace(call.trace)
        return commands.enqueue.commit(at, marked, call.rules, batch=call.batch)

    def _place_of(self, path: str | Path) -> str:
        return _as_path(path)

    def _columns_of(self, schema: StructType | str) -> tuple[Field, ...]:
        return arrow.arrow_types.parse_fields(cast("str", schema))

    def _make_reader(self, reader: Store) -> LocalReader:
        return LocalReader(reader)


class LocalReader(LocalVerbs, ReaderFacts["pa.Table", "pa.Schema"]):
    """A queue without Spark as one of its readers sees it; made by :meth:`LocalQueue.reader`.

    Its claims, its settings and its pause are its own; the items are shared.
    """


def _store(
    path: str | Path,
    durability: StepDurability,
    clock: Clock | None,
    listener: Listener | None,
    storage: StorageOptions | None,
) -> Store:
    require_step_durability(durability)
    session = PlainSession({DURABILITY: durability}, object_tables.tables_at(path, storage))
    return Store.of(session, QueueAddress(_as_path(path)), clock, listener)


def _as_path(path: str | Path) -> str:
    """Return a path; a plain name is a path here, and no table of a catalog."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgumentError(f"path is {shorten(path)}: it must be a text or a Path")
    place = os.fspath(path)
    checks.require_text("path", place)
    return place if "/" in place else f"./{place}"


def create_in(store: Store, schema: str, config: QueueConfig | None) -> LocalQueue:
    """Create a queue in a store; parameters and errors as for :meth:`LocalQueue.create`.

    Parameters
    ----------
    store : Store
        Where it is to be, with a session that has no Spark.
    """
    return LocalQueue._create(store, schema, config)  # noqa: SLF001 - it is no user's business


def columns_of(queue: LocalQueue) -> tuple[Field, ...]:
    """Return the user's columns.

    Raises
    ------
    SparkNeededError
        When only Spark reads the tables.
    """
    return commands.rows.columns_of(queue._main)  # noqa: SLF001 - as above


def examine(path: str, thresholds: Thresholds) -> Checkup:
    """Find a queue's faults, even where it does not open.

    Raises
    ------
    QueueNotFoundError
        When there is none.
    """
    from spark_queue.doctor import examine as examination  # noqa: PLC0415 - takes a while

    store = Store.of(PlainSession(), QueueAddress(path), SystemClock())
    return examination.examine(store, thresholds)
