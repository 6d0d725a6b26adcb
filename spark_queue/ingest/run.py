"""Main job: find the files below a directory, and put each of them through a queue once."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql import functions as F

from spark_queue import checks
from spark_queue.clock import SystemClock
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.ingest.file_handler import FACTS_SCHEMA, file_facts, media_type
from spark_queue.ingest.tree import FoundFile, walk
from spark_queue.processing.executor import require_for_handlers
from spark_queue.processing.loop import ProcessResult, Stopped
from spark_queue.queue_views import store_of
from spark_queue.results import EnqueueResult
from spark_queue.spark.frames import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: Files by tenant.
FileCounts = Mapping[str, int]

_COUNTED = ("discovered", "inserted", "known", "processed", "dead", "waiting")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSummary:
    """What a run did for one tenant."""

    tenant: str
    """The first directory below the source; ``""`` for the files at the top."""
    discovered: int = 0
    """Files found below the source."""
    inserted: int = 0
    """Files, or versions of files, that the queue did not know."""
    known: int = 0
    """Files that it knew, and did not take again."""
    processed: int = 0
    """Files read and written to the output in this run."""
    dead: int = 0
    """Files that could not be read in this run."""
    waiting: int = 0
    """Files still to be read, when the run was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSummary:
    """The files of one media type that were found below the source."""

    media_type: str | None
    """By their names; ``None`` where those tell nothing."""
    files: int
    """How many."""
    bytes: int
    """What they take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSummary:
    """What a run did."""

    discovered: int
    """Files found below the source."""
    inserted: int
    """Files, or versions of files, that the queue did not know."""
    known: int
    """Files that it knew, and did not take again."""
    processed: int
    """Files read and written to the output in this run, those of an earlier run included that had
    not got there."""
    dead: int
    """Files that could not be read in this run: they are in the dead letters."""
    waiting: int
    """Files still to be read; above 0 only where the run was stopped."""
    seconds: float
    """How long the run took."""
    stopped: Stopped
    """Why it ended."""
    tenants: tuple[TenantSummary, ...]
    """The same for each tenant, in the order of their names."""
    types: tuple[TypeSummary, ...] = ()
    """The files that were found, by media type, the most files first."""

    def _repr_html_(self) -> str:
        return (
            f"<b>{self.discovered}</b> found, <b>{self.inserted}</b> new, "
            f"<b>{self.processed}</b> processed, <b>{self.dead}</b> dead, "
            f"<b>{self.waiting}</b> waiting in {self.seconds:.1f} s ({self.stopped})"
        )


def by_type(files: Iterable[FoundFile]) -> list[TypeSummary]:
    """Count found files by media type, the most files first."""
    counts, sizes = Counter[str | None](), Counter[str | None]()
    for file in files:
        kind = media_type(file.path)
        counts[kind] += 1
        sizes[kind] += file.size
    types = [TypeSummary(media_type=kind, files=n, bytes=sizes[kind]) for kind, n in counts.items()]
    return sorted(types, key=lambda one: (-one.files, one.media_type or ""))


def summarise(
    *,
    discovered: FileCounts,
    inserted: FileCounts,
    states: Mapping[str, FileCounts],
    seconds: float,
    stopped: Stopped,
    types: Sequence[TypeSummary] = (),
) -> IngestSummary:
    """Put the counts of a run together.

    Parameters
    ----------
    discovered, inserted : mapping
        Files per tenant.
    states : mapping
        Per state (``acked``, ``dead``: of this run; ``ready``, ``claimed``: now), files per tenant.
    seconds : float
        How long the run took.
    stopped : str
        Why it ended.
    types : sequence of TypeSummary
        The files found, by media type.
    """
    waiting = Counter(states.get("ready", {})) + Counter(states.get("claimed", {}))
    names = sorted({*discovered, *waiting, *(t for counts in states.values() for t in counts)})
    tenants = tuple(
        TenantSummary(
            tenant=name,
            discovered=discovered.get(name, 0),
            inserted=inserted.get(name, 0),
            known=discovered.get(name, 0) - inserted.get(name, 0),
            processed=states.get("acked", {}).get(name, 0),
            dead=states.get("dead", {}).get(name, 0),
            waiting=waiting[name],
        )
        for name in names
    )
    return IngestSummary(
        **{name: sum(getattr(tenant, name) for tenant in tenants) for name in _COUNTED},
        seconds=round(seconds, 3),
        stopped=stopped,
        tenants=tenants,
        types=tuple(types),
    )


#: The columns of a file.
FILE_SCHEMA = "path string, size bigint, modified_at timestamp, tenant string, directory string"

#: Distinct for ever by version, fair by tenant, serial per directory.
FILE_CONFIG = QueueConfig(
    # The numbers go first: they hold no separator, so no two versions share a key.
    dedup_key="concat_ws('/', size, unix_micros(modified_at), path)",
    dedup_scope="forever",
    fair_key="tenant",
    group_key="directory",
)

_ARROW = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modified_at", pa.timestamp("us", tz="UTC")),
        ("tenant", pa.string()),
        ("directory", pa.string()),
    ]
)


def discover(
    spark: SparkSession,
    source: str | os.PathLike[str],
    *,
    exclude: Sequence[str] = (),
    follow_links: bool = False,
) -> DataFrame:
    """Find the files below a directory.

    The driver walks the tree; workers must see it under the same path to read the files.

    Parameters
    ----------
    spark : SparkSession
        The caller's session.
    source : str or path
        A directory.
    exclude : sequence of str
        Patterns of names to leave out, as the shell has them, of files and of directories with all
        that is below; one with a ``/`` is matched to the path below the source.
    follow_links : bool
        Also look into directories that symbolic links lead to. Each is read once.

    Returns
    -------
    DataFrame
        One row a file: path, size in bytes, modified_at, tenant (the first directory below the
        source, ``""`` for a file at the top) and directory.

    Raises
    ------
    InvalidArgumentError
        When the source is no directory, or cannot be listed; or ``exclude`` is no list of patterns.
    """
    return file_rows(spark, list(walk(source, exclude=exclude, follow_links=follow_links)))


def file_rows(spark: SparkSession, files: Sequence[FoundFile]) -> DataFrame:
    """Return found files as rows of the queue."""
    # The fields of a file are the columns, in their order.
    columns = [[getattr(file, name) for file in files] for name in FoundFile.__slots__]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _ARROW, strict=True)]
    return frame_of(spark, pa.Table.from_arrays(arrays, schema=_ARROW), FILE_SCHEMA)


Phase = Literal["discover", "enqueue", "process", "summarise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is."""

    phase: Phase
    """What it is doing."""
    done: int = 0
    """Files that are settled."""
    total: int = 0
    """Files to settle in this run."""


def ingest(
    spark: SparkSession,
    source: str | os.PathLike[str],
    queue: str,
    output: str,
    *,
    exclude: Sequence[str] = (),
    follow_links: bool = False,
    limit: int = 50_000,
    time_limit: timedelta | None = None,
    stop: threading.Event | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> IngestSummary:
    """Put every file below a directory through a queue, and write one row for each.

    A run that is killed anywhere and started again leaves each file exactly once in the output.
    A later run handles only new and changed files. A file that cannot be read goes to the dead
    letters of the queue, with the reason, and does not stop the others.

    Parameters
    ----------
    spark : SparkSession
        The caller's session, with Delta.
    source : str or path
        A directory that driver and workers see under the same path.
    queue : str
        Name or path of the queue; it is made where it is missing.
    output : str
        Name or path (with a ``/``) of the Delta table that gets the rows of ``FACTS_SCHEMA``.
    exclude : sequence of str
        Patterns of names to leave out, as the shell has them, of files and of directories with all
        that is below; one with a ``/`` is matched to the path below the source.
    follow_links : bool
        Also look into directories that symbolic links lead to. Each is read once.
    limit : int
        How many files one claim takes at most. A claim of any size costs seconds; what it
        reads is in the output when all of it is read.
    time_limit : timedelta, optional
        No further claim after this long.
    stop : threading.Event, optional
        No further claim once it is set. SIGTERM also releases the items at work.
    on_progress : callable, optional
        Called when a phase starts, and after each claim.

    Returns
    -------
    IngestSummary
        Counts, in all and per tenant.

    Raises
    ------
    InvalidArgumentError
        When the source is no directory, or ``exclude`` is no list of patterns.
    InvalidConfigError
        When the driver lacks what Spark needs to run a handler: pandas, for example.
    WriterLockedError
        When a front of another process holds the queue on this machine's disk, or writing to it
        takes others too long.

    Examples
    --------
    >>> ingest(spark, "/data/in", "/data/queue", "/data/facts").processed   # doctest: +SKIP
    1200
    """
    checks.optional(checks.require_callable, "on_progress", on_progress)
    require_for_handlers()
    tell = on_progress or (lambda _: None)
    started, started_at = time.monotonic(), SystemClock().now()
    tell(Progress(phase="discover"))
    files = list(walk(source, exclude=exclude, follow_links=follow_links))
    tell(Progress(phase="enqueue"))
    files_queue = _open_queue(spark, queue)
    entered = files_queue.enqueue(file_rows(spark, files), order_by="path")
    total = _count_unfinished(files_queue)
    tell(Progress(phase="process", total=total))

    def show(result: ProcessResult) -> None:
        tell(Progress(phase="process", done=result.acked + result.dead, total=total))

    done = files_queue.process(
        file_facts,
        limit=limit,
        returns=FACTS_SCHEMA,
        output=output,
        time_limit=time_limit,
        stop=stop,
        on_claim=show,
    )
    tell(Progress(phase="summarise", done=done.acked + done.dead, total=total))
    discovered = Counter(file.tenant for file in files)
    new = count_inserted(entered, discovered)
    states = known_states(done, total, new, discovered)
    return summarise(
        discovered=discovered,
        inserted=new,
        states=_states(files_queue, started_at) if states is None else states,
        seconds=time.monotonic() - started,
        stopped=done.stopped,
        types=by_type(files),
    )


def _open_queue(spark: SparkSession, queue: str) -> DeltaQueue:
    if DeltaQueue.exists(spark, queue):
        return DeltaQueue.open(spark, queue)
    return DeltaQueue.create(spark, queue, FILE_SCHEMA, FILE_CONFIG)


def _count_unfinished(queue: DeltaQueue) -> int:
    """Return how many items are not finished, from the heads of the two logs."""
    return store_of(queue).outstanding(store_of(queue).status_head())


def count_inserted(entered: EnqueueResult[Any], discovered: Mapping[str, int]) -> Mapping[str, int]:
    """Return how many files of each tenant were new, from counts if possible."""
    if entered.inserted == 0:
        return {}
    if entered.inserted == sum(discovered.values()):
        return discovered
    new = entered.outcomes.where(F.col("outcome") == "inserted")
    return {row[0]: row[1] for row in new.groupBy("tenant").count().collect()}


def known_states(
    done: ProcessResult,
    total: int,
    new: Mapping[str, int],
    discovered: Mapping[str, int],
) -> Mapping[str, Mapping[str, int]] | None:
    """Return files per state and tenant where the counts leave no doubt, else ``None``.

    They do not where nothing was open, and where everything is new and done: the usual runs.
    """
    if total == 0 and done.acked + done.dead == 0:
        return {}
    if done.acked == total == sum(new.values()) == sum(discovered.values()):
        return {"acked": discovered}
    return None


def _states(queue: DeltaQueue, since: datetime) -> Mapping[str, Mapping[str, int]]:
    """Count open files, and recently finished ones, by state and tenant."""
    status = queue.status()
    recent = status.where(F.col("_finished_at").isNull() | (F.col("_finished_at") >= F.lit(since)))
    states: dict[str, dict[str, int]] = defaultdict(dict)
    for state, tenant, count in recent.groupBy("_state", "tenant").count().collect():
        states[state][tenant] = count
    return states
