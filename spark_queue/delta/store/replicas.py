"""Choice of steps decided in this process, and their replica."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.replica.checkpointed import Since
from spark_queue.delta.replica.reading import replica_of
from spark_queue.delta.replica.several import Measure, Several
from spark_queue.delta.replica.state import (
    ENTERED,
    FOLLOWED,
    Replica,
    TooManyItemsError,
)
from spark_queue.delta.store import windows
from spark_queue.delta.store.memory import TooLarge
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import QueueHead, Registered, StatusHead
from spark_queue.delta.tables.wishes import PlainSession, small_steps
from spark_queue.reader_config import ReaderConfig

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

#: How many times that they may become before a window is made.
_GROWS = 5

#: Dedup keys and lines that are remembered at most; others are looked up.
_KEYS = 100_000

#: Items beyond a window that have ended, of which a replica knows at most.
_GONE = 200_000

#: Steps after which a queue that did not fit is looked at again at the latest.
_PATIENCE = 1_000


def at_hand(store: Store) -> Replica | None:
    """Return the state of a reader's items as of its newest steps; ``None`` if Spark has to decide.

    Asked under the lock of the log that is written next, so that it stays what it is.
    """
    if not is_possible(store):
        return None
    # In this order: what a status step moves has entered by then, whatever is committed meanwhile.
    status = store.status_head()
    queue = store.queue_head()
    facts, position = queue.readers.get(store.reader), store.position()
    if facts is None or facts.streams:
        return None
    known = position.replica
    if position.too_large.is_now(queue, status) and (_has_spark(store) or are_files_read(store)):
        known = None
    elif known is None or (known.queue, known.status) != (queue.token, status.token):
        known = _read(store, queue, status)
    elif _is_outgrown(store, known, queue, status):
        # The keys that it has learnt are those of the item log, and stay.
        known = _read(store, queue, status, known)
    position.replica = known
    if known is not None and known.window is not None:
        known.window.source.as_of(queue.step, tuple(queue.tops))
    return known


def too_many(store: Store) -> None:
    """Leave a queue to a planner for a while: what comes next is behind more than fits into memory.

    Where no planner reads the files, and there is no Spark, it is tried all the same.
    """
    queue, status = store.queue_head(), store.status_head()
    _leave(store, queue.step + status.step, status.claimed)


def _leave(store: Store, steps: int, claimed: int) -> None:
    position = store.position()
    position.replica = None
    position.too_large = TooLarge(steps + _PATIENCE, claimed)


def are_files_read(store: Store) -> bool:
    """Tell whether this process reads the files of both logs, so that SQL decides large steps."""
    if not is_possible(store) or not store.is_local():
        return False
    return store.native("queue") is not None and store.native("status") is not None


def is_large(store: Store, head: StatusHead, limit: int) -> bool:
    """Tell whether a claim is one for a planner: more than is decided well one by one."""
    count = min(limit, store.outstanding(head))
    return count > _OPEN or (count > LARGE and are_files_read(store))


def is_unread(store: Store, head: StatusHead) -> bool:
    """Tell whether much is in flight, and would have to be read to be known here."""
    is_unknown = store.position().replica is None
    return is_unknown and head.claimed > LARGE and are_files_read(store)


def note_large(store: Store, count: int, after: StatusHead) -> None:
    """Leave it to a planner to settle a large claim, too: all in flight would be read here.

    Parameters
    ----------
    count : int
        Items of the claim.
    after : StatusHead
        The head with the claim.
    """
    if count > _OPEN:
        with store.cache().lock:
            _leave(store, store.queue_head().step + after.step, after.claimed)


def of_all(store: Store, every: Sequence[Store]) -> Measure | None:
    """Return the state of what any reader is not done with, or ``None`` as above.

    Then a new item is measured against no more than that: no reader is limited in what it takes.

    Parameters
    ----------
    every : sequence of Store
        The queue as each of its readers sees it.
    """
    facts = store.queue_head().readers
    if any(one.streams or _is_limited(one) for one in facts.values()):
        return None
    known = [replica for reader in every if (replica := at_hand(reader)) is not None]
    if not known or len(known) < len(facts):
        return None
    return known[0] if len(known) == 1 else Several(known)


def is_possible(store: Store) -> bool:
    """Tell whether the session, and the place of the queue, let steps be decided here.

    Where steps of others do not come one by one, all would have to be read for each of our own.
    """
    if store.handle.natives is not None or small_steps(store.session) == "spark":
        return False
    return store.is_followed()


def _has_spark(store: Store) -> bool:
    """Tell whether somebody else can decide; without Spark it is tried at any cost."""
    return not isinstance(store.session, PlainSession)


def _is_limited(facts: Registered) -> bool:
    limits = ReaderConfig.from_dict(facts.config)
    return limits.max_items is not None or limits.max_bytes is not None


def _is_short(queue: QueueHead) -> bool:
    """Tell whether few enough rows were ever enqueued for all to be read."""
    return queue.items + queue.refused <= _READ


def _is_outgrown(store: Store, known: Replica, queue: QueueHead, status: StatusHead) -> bool:
    """Tell whether a replica does not fit the queue any more; what it need not know is dropped."""
    settings, window = store.settings(status), known.window
    if window is None:
        most = min(_OPEN, _GROWS * _NEAR)
        return store.outstanding(status) > most or _has_too_many_keys(store, known, status)
    if len(known.keys) > _KEYS or len(known.ends) > _KEYS:
        known.look_up(queue.step, lines=len(known.ends) > _KEYS)
    is_another = window.settings.stretches != settings.stretches
    # What was touched is in memory however much it is: to begin anew would make it no less.
    has_grown = len(known.items) > max(_OPEN, 2 * window.begun)
    has_grown = has_grown or (window.ranks is not None and window.ranks.added > _KEYS)
    return is_another or window.is_in_doubt or has_grown or len(window.gone) > _GONE


def _read(
    store: Store, queue: QueueHead, status: StatusHead, before: Replica | None = None
) -> Replica | None:
    """Build the state from the rows of both logs; ``None`` where there are too many of them."""
    if _is_scattered(store):
        return None
    found: Replica | None = None
    with suppress(TooManyItemsError):
        found = _cut(store, queue, status, before) or _whole(store, queue, status)
        if found is None or not _has_too_many_keys(store, found, status):
            return found
        found = _cut(store, queue, status, found)
    if found is None:
        # To read the logs again for each step would cost more than Spark does.
        too_many(store)
    return found


def _has_too_many_keys(store: Store, known: Replica, status: StatusHead) -> bool:
    """Tell whether more keys are held than a replica remembers, of which others are dropped."""
    if known.window is None and len(known.keys) > _KEYS:
        known.forget_keys(store.settings(status).config.dedup_scope, store.clock.now())
    return known.window is None and len(known.keys) > _KEYS


def _cut(
    store: Store, queue: QueueHead, status: StatusHead, before: Replica | None
) -> Replica | None:
    """Return what counts of a queue, and look the rest up; ``None`` where all is to be known."""
    if not store.is_local():
        return None
    is_large = store.outstanding(status) > _NEAR
    has_outgrown = before is not None and (before.window is not None or len(before.keys) > _KEYS)
    if not (is_large or has_outgrown or not _is_short(queue)):
        return None
    replica = windows.built(store, queue, status, _READ)
    if replica is None or replica.window is None:
        return None
    source = replica.window.source
    source.as_of(queue.step, tuple(queue.tops))
    if before is not None and before.window is not None and not before.window.is_in_doubt:
        source.go_on(before.window.source.hashes)
    if not is_large:
        while replica.horizon() is not None:
            replica.come_nearer(_NEAR, _OPEN)
    return replica


def _whole(store: Store, queue: QueueHead, status: StatusHead) -> Replica | None:
    """Return all that is open, and all keys; ``None`` where that is too much."""
    if store.outstanding(status) > _OPEN:
        return None
    is_short = _is_short(queue)
    found = _all(store) if is_short else _since_checkpoint(store, queue, status)
    if found is None:
        return None
    entered, followed = found
    replica = replica_of(
        entered.filter(pc.less_equal(entered["_step"], queue.step)),
        followed.filter(pc.less_equal(followed["_step"], status.step)),
        queue.readers[store.reader].since_step,
        status.checkpoint.step if is_short else 0,
    )
    replica.has_forgotten |= not is_short
    replica.queue, replica.status = queue.token, status.token
    return replica


def _is_scattered(store: Store) -> bool:
    """Tell whether the logs on this disk are more files than are read, or not to be read here."""
    logs = store.native("queue"), store.native("status")
    if store.is_local():
        return any(log is None or log.file_count() > _FILES for log in logs)
    return False


def _all(store: Store) -> tuple[pa.Table, pa.Table] | None:
    """Return the rows of both logs; ``None`` where they cannot be had."""
    items, states = store.native("queue"), store.native("status")
    if items is not None and states is not None:
        return items.rows_of(items.files(), ENTERED), states.rows_of(states.files(), FOLLOWED)
    if store.is_local():
        return None
    return store.rows_since("queue", 0, ENTERED), store.rows_since("status", 0, FOLLOWED)


def _since_checkpoint(
    store: Store, queue: QueueHead, status: StatusHead
) -> tuple[pa.Table, pa.Table] | None:
    """Return the rows that still count; ``None`` where Spark finds them better.

    A key that outlives its item may be that of any item there ever was.
    """
    settings, items, states = store.settings(status), store.native("queue"), store.native("status")
    is_live = settings.config.dedup_key is None or settings.config.dedup_scope == "live"
    if items is None or states is None or not status.checkpoint.step or not is_live:
        return None
    since = Since(status.checkpoint, settings, sorted(queue.tops), _READ)
    followed = since.followed(states)
    entered = None if followed is None else since.entered(items, followed)
    return None if followed is None or entered is None else (entered, followed)
