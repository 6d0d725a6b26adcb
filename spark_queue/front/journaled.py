"""A journaled queue whose journal is a queue on Delta, with Spark or without."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from spark_queue import checks, extras
from spark_queue.clock import Clock
from spark_queue.errors import InvalidArgumentError
from spark_queue.front.queue_ends import require_open
from spark_queue.journal import JournaledQueue, QueueOptions, ReaderHooks
from spark_queue.local_queue import LocalQueue
from spark_queue.log.addresses import require_table
from spark_queue.memory.journal.journal_options import require_name, require_options
from spark_queue.queue_views import main_store_of
from spark_queue.reader_config import ReaderConfig
from spark_queue.state.handle import Handle
from spark_queue.state.store import Store
from spark_queue.stores.delta_journal import DeltaJournal
from spark_queue.wording import shorten

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from spark_queue.delta_queue import DeltaQueue

#: How often a front checkpoints its positions by default.
_CHECKPOINTS = timedelta(minutes=1)


def journaled_queue(
    source: SparkSession | DeltaQueue | LocalQueue,
    path: str | None = None,
    schema: StructType | str = "data binary",
    *,
    options: QueueOptions | None = None,
    config: ReaderConfig | None = None,
    hooks: ReaderHooks[Any] | None = None,
    queues: Callable[[str], JournaledQueue[Any]] | None = None,
    retention: timedelta | None = None,
    archive_to: str | None = None,
    native: bool = False,
    clock: Clock | None = None,
) -> JournaledQueue[Any]:
    """Open a queue in memory with many readers, durable in Delta.

    Parameters
    ----------
    source : DeltaQueue, LocalQueue or SparkSession
        The queue, with Spark or without; or the caller's session with Delta, in which the queue is
        opened, or made where it is missing. While the front is open it alone may write to the
        queue: not even the handle that is given here may. Its tables may always be read.
    path : str, optional
        With a session the queue, as :meth:`DeltaQueue.open` names it.
    schema : StructType or str
        With a session the columns of a queue that is made. With one column an item is its value
        (bytes, by default), with several it is a mapping.
    options : QueueOptions, optional
        Durability, groups and memory. By default a put's future waits for its group, and positions
        are checkpointed, and small files merged, from time to time.
    config : ReaderConfig, optional
        The configuration of readers that are given none.
    hooks : ReaderHooks, optional
        Those of readers that are given none.
    queues : callable, optional
        Called with a name, returns the queue that ``expire_to`` and its like mean by it.
    retention : timedelta, optional
        How long items are kept that all readers are done with; for ever by default.
    archive_to : str, optional
        The table that gets them when they are dropped; Spark writes it.
    native : bool
        Whether all steps are written without Spark, as they are without a session: for a queue on
        this machine's disk. While the front is open only this library may write to its tables: no
        ``OPTIMIZE`` or ``VACUUM`` by hand.
    clock : Clock, optional
        With a session, tells when items were put, and when they expire; the machine's by default.
        A queue has its own.

    Returns
    -------
    JournaledQueue
        It holds the queue: a former front of it, in this process or on a shared store, hands out
        nothing more.

    Raises
    ------
    InvalidArgumentError
        When the queue is distinct, fair, grouped or has priorities: for those there is
        :class:`DurableQueue`. When ``native`` is not possible, or an argument is not of its kind.
    SparkNeededError
        When there is no session, and only Spark can read the tables, or write ``archive_to``.
    WriterLockedError
        When a front of another process, which lives, holds a queue on this machine's disk.
    """
    require_options(options, config, hooks, queues)
    checks.optional(checks.require_duration, "retention", retention)
    checks.optional(require_table, "archive_to", archive_to)
    checks.require_flag("native", native)
    if clock is not None:
        checks.require_methods("clock", clock, "now")
    given = _store_of(source, path, schema, clock)
    name = require_name(_name_of(given.name))
    # By a handle of its own: the holder of the other one is not the front.
    mine = given.handle
    store = Store(Handle(mine.session, mine.address, mine.clock, mine.listener, tables=mine.tables))
    journal = DeltaJournal(store, retention=retention, archive_to=archive_to, native=native)
    return JournaledQueue(
        journal,
        name,
        options=options or QueueOptions(checkpoint_interval=_CHECKPOINTS),
        config=config,
        hooks=hooks,
        size_of=journal.size_of,
        queues=queues,
        clock=store.clock,
    )


def _store_of(
    source: object, path: str | None, schema: StructType | str, clock: Clock | None
) -> Store:
    """Return the logs of a queue, without a needless import of Spark."""
    if isinstance(source, LocalQueue):
        _require_no_other(path, clock)
        return main_store_of(source)
    require_open("source", source)
    home = extras.load("spark_queue.front.spark_ends", "a journal of a queue that Spark opens")
    if home.is_queue(source):
        _require_no_other(path, clock)
        of_queue: Store = home.main_store_of(source)
        return of_queue
    if path is None:
        raise InvalidArgumentError(
            f"path is None: with {type(source).__name__} for a session, say which queue"
        )
    made: Store = home.open_queue(source, path, schema, clock)
    return made


def _require_no_other(path: str | None, clock: Clock | None) -> None:
    """Refuse arguments that an open queue has settled already."""
    for name, value in (("path", path), ("clock", clock)):
        if value is not None:
            raise InvalidArgumentError(
                f"{name} is {shorten(value)}, and the queue is open already: leave it out"
            )


def _name_of(path: str) -> str:
    """Return what the queue calls itself: the last part of its address."""
    return path.rstrip("/").rsplit("/", 1)[-1].replace(".", ":")
