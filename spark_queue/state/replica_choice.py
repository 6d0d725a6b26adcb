"""Choice of steps decided in this process, and their replica."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.log.delta.commits import LogFile
from spark_queue.log.delta.log import Log
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.heads import QueueHead, StatusHead
from spark_queue.log.schema import ITEM, KEY, META_LANE, QUEUE_COLUMNS, TERMINAL
from spark_queue.state.backlog import TablesAhead
from spark_queue.state.catch_up import TooLarge
from spark_queue.state.open_items import ENTERED, FOLLOWED
from spark_queue.state.replica import Replica
from spark_queue.state.replica_rows import newest_of, replica_of, rows_since
from spark_queue.state.schedulers import Measure, Several
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.window import TooManyItemsError, Window

#: Rows that are brought to memory at a time, as columns: a hundred bytes each.
_AHEAD = 50_000


def build(at: Snapshot, most_touched: float = math.inf) -> Replica | None:
    """Build a replica from the status log, with a window on the other items.

    Parameters
    ----------
    at : Snapshot
        The queue, as a reader sees it.
    most_touched : int
        Open items up to which those are brought that were claimed before.

    Returns
    -------
    Replica or None
        ``None`` where more was done since the checkpoint, or only Spark reads the tables.

    Raises
    ------
    TooManyItemsError
        When more items would have to be brought.
    """
    items, states, queue, status = at.item_log, at.status_log, at.queue, at.status
    if not isinstance(items, DeltaLog) or states is None:
        return None
    settings = at.settings
    followed = _counted_rows(at, states)
    if followed is None:
        return None
    newest = newest_of(followed.filter(pc.equal(followed["_kind"], ITEM)))
    is_over = pc.is_in(newest["_state"], pa.array(TERMINAL))
    touched = newest.filter(pc.invert(is_over))["_seq"].combine_chunks()
    if len(touched) > most_touched:
        raise TooManyItemsError
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
    for row in replica.items.values():
        replica.window.meet(row)
    if queue.has_chains and _may_have_chains_here(queue):
        replica.window.chained |= source.chained_items()
    return replica


def _counted_rows(at: Snapshot, log: Log[Any]) -> pa.Table | None:
    """Return the status log's rows that count; ``None`` where they are too many."""
    files, status = log.files(), at.status
    if status.checkpoint.step:
        rows = rows_since(log, status.checkpoint.step, _READ)
    elif sum(file.rows for file in files) <= _READ:
        rows = log.rows_of(files, FOLLOWED)
    else:
        rows = None
    return None if rows is None else rows.filter(pc.less_equal(rows["_step"], status.step))


def _unsaid(source: TablesAhead, followed: pa.Table) -> pa.Table:
    """Return the entries of open items, where the status log lacks them."""
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
    """Return the ends of lines that the order of service may still reach."""
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


#: Rows of a log that are read for a replica.
_READ = 500_000

#: Files that a log may have for that: one for each step since it was compacted, two milliseconds
#: each.
_FILES = 2_000

#: Open items up to which all of them are in memory: 2 KB, and 50 microseconds to begin, each. From
#: so many on it begins with a window, where the order allows one.
_OPEN = 50_000
_NEAR = 10_000

#: Items that one step decides one by one at most, where SQL decides in a tenth of a second.
LARGE = 5_000

#: The same of a claim with its settle, which go into and out of the order of service: 0.3 ms each;
#: and of a settle for which a replica would have to be read.
_CLAIMED = 1_000

#: How many times that they may become before a window is made.
_GROWS = 5

#: Dedup keys and lines that are remembered at most; others are looked up.
_KEYS = 100_000

#: Items beyond a window that have ended, of which a replica knows at most.
_GONE = 200_000

#: Steps after which a queue that did not fit is looked at again at the latest.
_PATIENCE = 1_000

#: Steps that a planner decides first, where a replica takes longer to make than a process may live.
_FIRST = 8


def at_hand(at: Snapshot) -> Replica | None:
    """Return the replica of a reader as of a snapshot; ``None`` if a planner must decide.

    Asked under the cache's lock, and that of the log that is written next, so that it stays what it
    is.
    """
    if not at.is_decidable:
        return None
    at.renew()
    queue, status, facts, position = at.queue, at.status, at.reader, at.position
    if facts is None or facts.streams:
        return None
    known = position.replica
    if position.too_large.is_now(queue, status) and (at.has_spark or at.are_files_read):
        known = None
    elif known is None or (known.queue, known.status) != (queue.token, status.token):
        known = _read(at)
    elif _is_outgrown(at, known):
        # The keys that it has learnt are those of the item log, and stay.
        known = _read(at, known)
    position.replica = known
    if known is not None and known.window is not None:
        known.window.source.as_of(queue.step, tuple(queue.tops))
        if queue.has_chains and not _has_chains_here(at, known):
            return None
    return known


def _has_chains_here(at: Snapshot, known: Replica) -> bool:
    """Whether all items are in memory that replace each other."""
    if not _may_have_chains_here(at.queue):
        return False
    try:
        known.bring_chains(_OPEN)
    except TooManyItemsError:
        too_many(at)
        return False
    return True


def _may_have_chains_here(queue: QueueHead) -> bool:
    # What a put has replaced for another reader says little of what waits for this one.
    return len(queue.readers) == 1


def too_many(at: Snapshot) -> None:
    """Leave a queue to a planner for a while: the next items do not fit into memory.

    Where no planner reads the files, and there is no Spark, it is tried all the same.
    """
    _leave(at, at.status)


def _leave(at: Snapshot, status: StatusHead) -> None:
    position = at.position
    position.replica = None
    position.too_large = TooLarge(at.queue.step + status.step + _PATIENCE, status.claimed)


def _put_off(at: Snapshot) -> None:
    at.position.too_large = TooLarge(at.queue.step + at.status.step + _FIRST, is_put_off=True)


def is_large(at: Snapshot, limit: int) -> bool:
    """Whether a claim is too large for one-by-one decisions, and needs a planner."""
    count = min(limit, at.outstanding)
    return count > _OPEN or (count > _one_by_one() and at.are_files_read)


def is_unread(at: Snapshot, count: float) -> bool:
    """Whether a planner should settle so many items, rather than a new replica."""
    many = min(count, at.status.claimed) > _one_by_one()
    return many and at.position.replica is None and at.are_files_read


def _one_by_one() -> int:
    return min(_CLAIMED, LARGE)


def is_read_anew(at: Snapshot) -> bool:
    """Whether a replica would have to be made of more items than one step decides one by one."""
    return at.position.replica is None and at.outstanding > LARGE and at.are_files_read


def note_large(at: Snapshot, count: int, after: StatusHead) -> None:
    """Leave the settle of a large claim to a planner, too: a replica would read all of it."""
    if count > _OPEN:
        with at.cache.lock:
            _leave(at, after)


def of_all(at: Snapshot, every: Sequence[Snapshot]) -> Measure | None:
    """Return the replicas of all readers, or ``None`` as above.

    Then a new item is measured against no more than that: no reader is limited in what it takes.
    """
    facts = at.queue.readers
    if any(one.streams for one in facts.values()) or any(map(_is_limited, every)):
        return None
    known = [replica for reader in every if (replica := at_hand(reader)) is not None]
    if not known or len(known) < len(facts):
        return None
    return known[0] if len(known) == 1 else Several(known)


def _is_limited(at: Snapshot) -> bool:
    reader_config = at.reader_config
    return reader_config.max_items is not None or reader_config.max_bytes is not None


def _is_short(queue: QueueHead) -> bool:
    """Whether few enough rows were ever enqueued for all to be read."""
    return queue.items + queue.refused <= _READ


def _is_outgrown(at: Snapshot, known: Replica) -> bool:
    """Whether a replica no longer fits the queue; keys to look up are dropped."""
    window = known.window
    if window is None:
        most = min(_OPEN, _GROWS * _NEAR)
        return at.outstanding > most or _has_too_many_keys(at, known)
    if len(known.keys) > _KEYS or len(known.ends) > _KEYS:
        known.look_up(at.queue.step, lines=len(known.ends) > _KEYS)
    is_another = window.settings.stretches != at.settings.stretches
    # Touched items are all in memory, however many: a new replica would have no fewer.
    has_grown = len(known.items) > max(_OPEN, 2 * window.begun)
    has_grown = has_grown or (window.ranks is not None and window.ranks.added > _KEYS)
    return is_another or window.is_in_doubt or has_grown or len(window.gone) > _GONE


def _read(at: Snapshot, before: Replica | None = None) -> Replica | None:
    """Build the replica from the rows of both logs; ``None`` where they are too many."""
    if _is_scattered(at):
        return None
    found: Replica | None = None
    is_new = before is None and at.are_files_read and at.position.too_large == TooLarge()
    with suppress(TooManyItemsError):
        found = _cut(at, before, LARGE if is_new else math.inf) or _whole(at)
        if found is None or not _has_too_many_keys(at, found):
            return found
        found = _cut(at, found)
    if found is None:
        # To read the logs again for each step would cost more than Spark does.
        (_put_off if is_new else too_many)(at)
    return found


def _has_too_many_keys(at: Snapshot, known: Replica) -> bool:
    """Whether more keys are held than a replica remembers; the others are dropped."""
    if known.window is None and len(known.keys) > _KEYS:
        known.forget_keys(at.settings.config.dedup_scope, at.store.clock.now())
    return known.window is None and len(known.keys) > _KEYS


def _cut(at: Snapshot, before: Replica | None, most_touched: float = math.inf) -> Replica | None:
    """Return a replica that looks keys up; ``None`` where it has to know all."""
    if not at.are_files_read:
        return None
    is_large = at.outstanding > _NEAR
    has_outgrown = before is not None and (before.window is not None or len(before.keys) > _KEYS)
    if not (is_large or has_outgrown or not _is_short(at.queue)):
        return None
    replica = build(at, most_touched)
    if replica is None or replica.window is None:
        return None
    source = replica.window.source
    source.as_of(at.queue.step, tuple(at.queue.tops))
    if before is not None and before.window is not None and not before.window.is_in_doubt:
        source.go_on(before.window.source.hashes)
    if not is_large:
        while replica.horizon() is not None:
            replica.come_nearer(_NEAR, _OPEN)
    return replica


def _whole(at: Snapshot) -> Replica | None:
    """Return all that is open, and all keys; ``None`` where that is too much."""
    queue, status, items = at.queue, at.status, at.item_log
    # Rows of a log in memory are there already, however many they are.
    is_in_memory = items is not None and not items.has_files()
    if at.outstanding > _OPEN or not (is_in_memory or _is_short(queue)):
        return None
    found = _all(at)
    if found is None:
        return None
    entered, followed = found
    replica = replica_of(
        entered.filter(pc.less_equal(entered["_step"], queue.step)),
        followed.filter(pc.less_equal(followed["_step"], status.step)),
        queue.readers[at.store.reader].since_step,
        status.checkpoint.step,
    )
    replica.queue, replica.status = queue.token, status.token
    return replica


def _is_scattered(at: Snapshot) -> bool:
    """Whether the logs on this disk have too many files, or files not to be read here."""
    if not at.is_local and not at.are_files_read:
        return False
    return any(log is None or len(log.files()) > _FILES for log in (at.item_log, at.status_log))


def _all(at: Snapshot) -> tuple[pa.Table, pa.Table] | None:
    """Return the rows of both logs; ``None`` where they cannot be had."""
    items, states, store = at.item_log, at.status_log, at.store
    if items is not None and states is not None:
        return items.rows_of(items.files(), ENTERED), states.rows_of(states.files(), FOLLOWED)
    if at.is_local:
        return None
    return store.rows_since("queue", 0, ENTERED), store.rows_since("status", 0, FOLLOWED)
