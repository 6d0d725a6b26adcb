"""Rows of the two logs, and the items of a claim, as tables of Arrow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.columns import kinds
from spark_queue.columns.arrow.rows import sizes_of
from spark_queue.errors import SparkNeededError
from spark_queue.log.delta.commits import LogFile
from spark_queue.log.delta.log import Log
from spark_queue.log.schema import (
    CLAIMED,
    CONFIG,
    ITEM,
    META_LANE,
    OPEN_LANE,
    PROGRESS,
    REFUSED,
    REFUSED_LANE,
    RENEWAL,
    RENEWAL_LANE,
    SOURCE_LANE,
    TRACE,
    carries_traces,
    user_names,
)
from spark_queue.log.step_events import LogName
from spark_queue.state.replica_rows import status_table
from spark_queue.state.store import Store

_T = TypeVar("_T")

#: Seqs up to which it is asked for each whether a file may have it.
_FEW = 1_000


def log_of(store: Store, which: LogName) -> Log[Any]:
    """Return a log of a queue.

    Raises
    ------
    SparkNeededError
        When only Spark reads it.
    """
    log = store.native(which)
    if log is None:
        raise SparkNeededError(f"to look at {store.name!r}", store.log(which).why_spark())
    return log


def sizes_in(store: Store, rows: pa.Table) -> pa.Array:
    """Return the bytes of each item, by the user's columns."""
    return sizes_of(rows, user_fields(store))


def refused_of(store: Store, step: int | None = None) -> int | None:
    """Return the number of refused rows: of all steps, or estimated for one.

    ``None`` where only Spark knows the files of the log.
    """
    log = store.native("queue")
    if log is None:
        return None
    # As of the head that is known: whoever asks has looked.
    with store.queue.still(math.inf):
        files = [file for file in log.files() if file.gen == REFUSED_LANE]
    found = [file.rows for file in files if step is None or file.may_have("_step", step, step)]
    return None if math.inf in found else int(sum(found))


#: The lanes of kinds of rows; items are in generations.
_LANES = {REFUSED: REFUSED_LANE, RENEWAL: RENEWAL_LANE, PROGRESS: RENEWAL_LANE}


def user_fields(store: Store) -> list[kinds.Field]:
    """Return the user's columns.

    Raises
    ------
    SparkNeededError
        When only Spark reads the logs.
    """
    return [*kinds.read_users(log_of(store, "queue").schema())]


def rows_of(
    store: Store,
    which: LogName,
    columns: Sequence[str],
    may_matter: Callable[[LogFile], bool] | None = None,
    *,
    kind: str = ITEM,
    most: float = math.inf,
) -> pa.Table:
    """Return some columns of the rows of a kind.

    Parameters
    ----------
    store : Store
        The queue.
    which : "queue" or "status"
        The log.
    columns : sequence of str
        The columns; ``_kind`` comes with them.
    may_matter : callable, optional
        Says of a file whether it is to be read.
    kind : str
        The kind of the rows.
    most : float
        Rows up to which the log is read.

    Raises
    ------
    SparkNeededError
        When only Spark reads the log, or it has more rows than that.
    """

    def read() -> pa.Table:
        return pa.concat_tables(parts_of(store, which, columns, may_matter, kind=kind, most=most))

    return once_more(read)


def once_more(read: Callable[[], _T]) -> _T:
    """Read files; read again if another process merged one."""
    try:
        return read()
    except OSError:
        return read()


def item_files(log: Log[Any]) -> list[LogFile]:
    """Return the files of a log with items or refused rows."""
    others = (META_LANE, OPEN_LANE, RENEWAL_LANE, SOURCE_LANE)
    return [file for file in log.files() if file.gen not in others]


def files_of(log: Log[Any], kind: str) -> list[LogFile]:
    """Return the files of a log that have rows of a kind."""
    if kind == CONFIG:
        return settings_files(log)
    lane = _LANES.get(kind)
    return [file for file in log.files() if (file.gen >= 0 if lane is None else file.gen == lane)]


def settings_files(log: Log[Any]) -> list[LogFile]:
    """Return the files of a status log that may have settings.

    They lie beside the heads, of which each step has one: a file of one row has only that, unless
    its step has another file there.
    """
    files = [file for file in log.files() if file.gen == META_LANE]
    of_steps = Counter(file.ranges.get("_step") for file in files)
    return [f for f in files if f.rows > 1 or of_steps[f.ranges.get("_step")] > 1]


def parts_of(
    store: Store,
    which: LogName,
    columns: Sequence[str],
    may_matter: Callable[[LogFile], bool] | None = None,
    *,
    kind: str = ITEM,
    most: float = math.inf,
) -> Iterator[pa.Table]:
    """Return the same rows part by part, for large logs; the first is empty.

    Raises
    ------
    OSError
        When a file was merged meanwhile; and those of :func:`rows_of`.
    """
    wanted, log = list(dict.fromkeys(["_kind", *columns])), log_of(store, which)
    files = files_of(log, kind)
    if may_matter is not None:
        files = [file for file in files if may_matter(file)]
    if sum(file.rows for file in files) > most:
        why = "it has more rows than a process looks at"
        raise SparkNeededError(f"to look at {store.name!r}", why)
    yield log.rows_of([], wanted)
    for rows in log.parts_of(files, wanted, may_matter):
        yield rows.filter(pc.equal(rows["_kind"], kind))


def having(seqs: pa.ChunkedArray) -> Callable[[LogFile], bool]:
    """Return a test whether a file may have an item."""
    if len(seqs) > _FEW:
        ends = pc.min_max(seqs).as_py()
        return lambda file: file.may_have("_seq", ends["min"], ends["max"])
    wanted = seqs.to_pylist()
    return lambda file: any(file.may_have("_seq", seq, seq) for seq in wanted)


def beside(rows: pa.Table, seqs: pa.ChunkedArray) -> pa.Table:
    """Return the one row of each item; null without any."""
    return rows.take(pc.index_in(seqs, value_set=rows["_seq"].combine_chunks()))


#: What is for those who run handlers.
HIDDEN = ("_group_key", TRACE)

#: What is said of an item beside its own columns.
_OF_THE_LEASE = ("_lease", "_attempts", "_group_key")

#: What is read of the rows by which items were leased.
_GRANT = (
    *("_seq", "_gen", "_round", "_losses", "_priority", "_turn"),
    *(*_OF_THE_LEASE, "_fair_key", "_flow_keys"),
)


def grant_of(store: Store, lease: int, over: Sequence[int] = ()) -> pa.Table:
    """Return the rows by which items were leased, without some; empty if none are in the log.

    Raises
    ------
    SparkNeededError
        When only Spark reads the log.
    """
    with store.cache().lock:
        replica = store.position().replica
        known = None if replica is None else replica.grants.get(lease)
        rows = [] if known is None else list(known.rows.values())
    grant = status_table(rows) if rows else once_more(partial(_read_grant, store, lease))
    if not over:
        return grant
    return grant.filter(pc.invert(pc.is_in(grant["_seq"], pa.array(over, pa.int64()))))


def items_of(store: Store, grant: pa.Table, *, most_bytes: float = math.inf) -> pa.Table | None:
    """Return the leased items; ``None`` if not readable here, or too large.

    Returns
    -------
    pyarrow.Table
        The user's columns, ``_seq``, ``_lease``, ``_attempts`` and ``_group_key``; and ``_trace``,
        if one of them belongs to one.
    """
    if store.native("queue") is None:
        return None

    def read() -> pa.Table | None:
        # What is leased was known when it was.
        with store.queue.still(math.inf):
            return _read_items(store, grant, most_bytes)

    rows = once_more(read)
    # Somebody may have taken them out of the log; what there is to say of that, a query says.
    return rows if rows is not None and rows.num_rows == grant.num_rows else None


def require_items(store: Store, grant: pa.Table, count: int, claim: str) -> pa.Table:
    """Return the leased items, all of them; see :func:`items_of`.

    Parameters
    ----------
    count : int
        How many there are to be.
    claim : str
        The claim, for the error.

    Raises
    ------
    SparkNeededError
        When one of them cannot be read here.
    """
    found = items_of(store, grant)
    if found is None or found.num_rows < count:
        why = "they were purged, or lie in files that only Spark reads"
        raise SparkNeededError(f"to read the items of claim {claim!r}", why)
    return found


def in_order(items: pa.Table, grant: pa.Table, *, keep: Collection[str] = ()) -> pa.Table:
    """Return items of a claim in the order of service.

    Of the columns that are for those who run handlers they have what is to be kept.
    """
    shown = [name for name in items.column_names if name not in HIDDEN or name in keep]
    if items.num_rows <= 1:
        return items.select(shown)
    leased = _beside(items, grant)
    ranks = pc.negate(leased["_priority"].cast(pa.int64()))
    placed = items.append_column("_rank", ranks).append_column("_turn", leased["_turn"])
    order = [(name, "ascending") for name in ("_rank", "_turn", "_seq")]
    return placed.sort_by(order).select(shown)


def _read_grant(store: Store, lease: int) -> pa.Table:
    log, names = log_of(store, "status"), ("_kind", "_state", "_step", *_GRANT)

    def may(file: LogFile) -> bool:
        return file.gen >= 0 and file.may_have("_step", lease, lease)

    parts = [log.rows_of([], names)]
    for rows in log.parts_of([file for file in log.files() if may(file)], names, may):
        is_claim = pc.and_(pc.equal(rows["_kind"], ITEM), pc.equal(rows["_state"], CLAIMED))
        parts.append(rows.filter(pc.and_(is_claim, pc.equal(rows["_step"], lease))))
    return pa.concat_tables(parts)


def _read_items(store: Store, grant: pa.Table, most_bytes: float) -> pa.Table | None:
    log, may = log_of(store, "queue"), _filter_of(grant)
    names, traces = user_names(store.columns()), [TRACE] if carries_traces(store.columns()) else []
    columns, size = [*names, "_kind", "_seq", *traces], 0
    parts = [log.rows_of([], columns)]
    for rows in log.parts_of([file for file in log.files() if may(file)], columns, may):
        parts.append(_items_among(rows, grant["_seq"]))
        size += parts[-1].nbytes
        if size > most_bytes:
            return None
    items = pa.concat_tables(parts)
    leased = _beside(items, grant)
    for name in _OF_THE_LEASE:
        items = items.append_column(name, leased[name])
    is_traced = bool(traces) and items[TRACE].null_count < items.num_rows
    return items.select([*names, "_seq", *_OF_THE_LEASE, *(traces if is_traced else [])])


def _items_among(rows: pa.Table, seqs: pa.ChunkedArray) -> pa.Table:
    """Return the rows of some items."""
    # As a rule a small claim gets what one enqueue has brought.
    if rows["_seq"].equals(seqs) and rows["_kind"].unique().to_pylist() == [ITEM]:
        return rows
    is_among = pc.is_in(rows["_seq"], seqs.combine_chunks())
    return rows.filter(pc.and_(is_among, pc.equal(rows["_kind"], ITEM)))


def _filter_of(grant: pa.Table) -> Callable[[LogFile], bool]:
    """Return a test whether a file may have a leased item."""
    seqs, rounds = (pc.min_max(grant[name]).as_py().values() for name in ("_seq", "_round"))
    gens = set(pc.unique(grant["_gen"]).to_pylist())
    # All files of the log are asked.
    return lambda file: (
        file.gen in gens and file.may_have("_seq", *seqs) and file.may_have("_round", *rounds)
    )


def _beside(items: pa.Table, grant: pa.Table) -> pa.Table:
    """Return the row by which each item was leased."""
    if items["_seq"].equals(grant["_seq"]):
        return grant
    return grant.take(pc.index_in(items["_seq"], value_set=grant["_seq"].combine_chunks()))
