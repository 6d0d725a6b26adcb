"""A replica of a queue of any size: what was touched is in memory, what waits is looked up."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.replica.checkpointed import Since
from spark_queue.delta.replica.reading import newest_of, replica_of
from spark_queue.delta.replica.state import ENTERED, FOLLOWED, Replica
from spark_queue.delta.replica.window import Window
from spark_queue.delta.store.ahead import TablesAhead
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.tables.files import LogFile
from spark_queue.delta.tables.heads import QueueHead
from spark_queue.delta.tables.local_log import LocalLog
from spark_queue.delta.tables.log import Log
from spark_queue.delta.tables.schema import (
    ITEM,
    KEY,
    META_LANE,
    QUEUE_COLUMNS,
    TERMINAL,
)

#: Rows that are brought to memory at a time, as columns: a hundred bytes each.
_AHEAD = 50_000


def built(at: Snapshot, most: int) -> Replica | None:
    """Return what the status log says of a queue, with a window on the rest.

    Parameters
    ----------
    at : Snapshot
        The queue, as a reader sees it.
    most : int
        Rows of the status log up to which it is read.

    Returns
    -------
    Replica or None
        ``None`` where more was done since the checkpoint, or only Spark reads the tables.
    """
    items, states, queue, status = at.item_log, at.status_log, at.queue, at.status
    if not isinstance(items, LocalLog) or states is None:
        return None
    settings = at.settings
    followed = _followed(at, states, most)
    if followed is None:
        return None
    newest = newest_of(followed.filter(pc.equal(followed["_kind"], ITEM)))
    is_over = pc.is_in(newest["_state"], pa.array(TERMINAL))
    touched = newest.filter(pc.invert(is_over))["_seq"].combine_chunks()
    source = TablesAhead(
        log=items,
        settings=settings,
        checkpoint=status.checkpoint,
        over=newest.filter(is_over)["_seq"].combine_chunks(),
        touched=touched,
        since=queue.readers[at.store.reader].since_step,
        step=queue.step,
        named_to=queue.step,
    )
    entered = pa.concat_tables([_unsaid(source, followed), _ends(source, queue)])
    replica = replica_of(entered, followed, source.since)
    replica.keys = {}
    replica.has_forgotten = True
    replica.queue, replica.status = queue.token, status.token
    replica.window = Window(source, settings, _AHEAD, since=source.since, begun=len(replica.items))
    for seq in replica.items:
        replica.window.meet(seq)
    return replica


def _followed(at: Snapshot, log: Log[Any], most: int) -> pa.Table | None:
    """Return the rows of the status log that count; ``None`` where there are too many."""
    files, status = log.files(), at.status
    if status.checkpoint.step:
        rows = Since(status.checkpoint, at.settings, (), most).rows_since(log)
    elif sum(file.rows for file in files) <= most:
        rows = log.rows_of(files, FOLLOWED)
    else:
        rows = None
    return None if rows is None else rows.filter(pc.less_equal(rows["_step"], status.step))


def _unsaid(source: TablesAhead, followed: pa.Table) -> pa.Table:
    """Return the rows of open items of which the status log does not say when they entered."""
    lacking = followed.filter(pc.is_null(followed["_enqueued_at"]))["_seq"]
    among = pc.is_in(source.touched, pc.unique(lacking.combine_chunks()))
    seqs = sorted(source.touched.filter(among).to_pylist())
    files = [f for f in source.log.files() if f.gen >= 0 and f.may_have_one("_seq", seqs)]
    found = [_ENTERED.empty_table()]
    for part in source.log.parts(files):
        rows = part.read(ENTERED, QUEUE_COLUMNS.arrow)
        found.append(rows.filter(pc.is_in(rows["_seq"], pa.array(seqs, pa.int64()))))
    return pa.concat_tables(found)


def _ends(source: TablesAhead, queue: QueueHead) -> pa.Table:
    """Return the ends of the lines that the order of service may have yet to reach."""
    if source.settings.config.fair_key is None:
        return _ENTERED.empty_table()
    pointers = source.checkpoint.pointers
    least = {p: source.settings.least_tag(p, pointers.get(p, (0.0, 0))[0]) for p in queue.tops}

    def may(file: LogFile) -> bool:
        return file.gen == META_LANE and any(
            file.may_have("_priority", p, p) and file.may_have("_round", least[p]) for p in least
        )

    files = [file for file in source.log.files() if may(file)]
    found = [_ENTERED.empty_table()]
    for part in source.log.parts(files):
        rows = part.read(ENTERED, QUEUE_COLUMNS.arrow)
        found.append(rows.filter(pc.equal(rows["_kind"], KEY)))
    rows = pa.concat_tables(found)
    return rows.filter(pc.less_equal(rows["_step"], queue.step))


_ENTERED = pa.schema([QUEUE_COLUMNS.arrow.field(name) for name in ENTERED])
