"""Whether small steps of a queue are decided in this process, and the replica for that."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.replica.checkpointed import Since
from spark_queue.delta.replica.reading import replica_of
from spark_queue.delta.replica.state import ENTERED, FOLLOWED, Replica, merged
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import QueueHead, Registered, StatusHead
from spark_queue.delta.tables.native import NativeLog
from spark_queue.delta.tables.wishes import small_steps
from spark_queue.reader_config import ReaderConfig

#: Rows of a log that are read for a replica.
_READ = 500_000

#: Files that a log may have for that: one for each step since it was compacted, two milliseconds
#: each.
_FILES = 2_000

#: Open items up to which steps are decided here: 2 KB, and 50 microseconds to begin, each.
_OPEN = 50_000

#: Dedup keys that are remembered at most.
_KEYS = 100_000

#: Steps after which a queue that had more of them is looked at again.
_PATIENCE = 1_000


def at_hand(store: Store) -> Replica | None:
    """Return the state of a reader's items as of its newest steps; ``None`` if Spark has to decide.

    Asked under the lock of the log that is written next, so that it stays what it is.
    """
    if not is_wanted(store):
        return None
    # In this order: what a status step moves has entered by then, whatever is committed meanwhile.
    status = store.status_head()
    queue = store.queue_head()
    facts, settings = queue.readers.get(store.reader), store.settings(status)
    if facts is None or facts.streams:
        return None
    position, steps = store.position(), queue.step + status.step
    known = position.replica
    if store.outstanding(status) > _OPEN or steps < position.too_large_until:
        known = position.replica = None
    elif known is None or (known.queue, known.status) != (queue.token, status.token):
        known = position.replica = _read(store, queue, status, facts.since_step)
    if known is None:
        return None
    if len(known.keys) > _KEYS:
        known.forget_keys(settings.config.dedup_scope, store.clock.now())
    if len(known.keys) > _KEYS:
        # To read the logs again for each step would cost more than Spark does.
        position.too_large_until = steps + _PATIENCE
        known = position.replica = None
    return known


def of_all(store: Store, every: Sequence[Store]) -> Replica | None:
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
    return known[0] if len(known) == 1 else merged(known)


def is_possible(store: Store) -> bool:
    """Tell whether the session, and the place of the queue, let steps be decided here."""
    if store.handle.natives is not None or not store.handle.place.is_local():
        return False
    return small_steps(store.session) != "spark"


def is_wanted(store: Store) -> bool:
    """Tell whether that is possible, and the queue is small."""
    if not is_possible(store):
        return False
    position = store.position()
    return (
        position.replica is not None
        or _is_short(store.queue_head())
        or store.status_head().checkpoint.step > 0
    )


def _is_limited(facts: Registered) -> bool:
    limits = ReaderConfig.from_dict(facts.config)
    return limits.max_items is not None or limits.max_bytes is not None


def _is_short(queue: QueueHead) -> bool:
    """Tell whether few enough rows were ever enqueued for all to be read."""
    return queue.items + queue.refused <= _READ


def _read(store: Store, queue: QueueHead, status: StatusHead, since: int) -> Replica | None:
    """Build the state from the rows of both logs; ``None`` where there are too many of them."""
    items, states = store.native("queue"), store.native("status")
    if items is None or states is None:
        return None
    if items.file_count() > _FILES or states.file_count() > _FILES:
        return None
    if _is_short(queue):
        entered, followed = items.read(ENTERED), states.read(FOLLOWED)
        begins = status.checkpoint.step
    else:
        found = _since_checkpoint(store, items, states, queue, status)
        if found is None:
            return None
        entered, followed = found
        begins = 0
    replica = replica_of(
        entered.filter(pc.less_equal(entered["_step"], queue.step)),
        followed.filter(pc.less_equal(followed["_step"], status.step)),
        since,
        begins,
    )
    replica.has_forgotten |= not _is_short(queue)
    replica.queue, replica.status = queue.token, status.token
    return replica


def _since_checkpoint(
    store: Store, items: NativeLog, states: NativeLog, queue: QueueHead, status: StatusHead
) -> tuple[pa.Table, pa.Table] | None:
    """Return the rows that still count; ``None`` where Spark finds them better.

    A key that outlives its item may be that of any item there ever was.
    """
    settings = store.settings(status)
    is_live = settings.config.dedup_key is None or settings.config.dedup_scope == "live"
    if not status.checkpoint.step or not is_live:
        return None
    since = Since(status.checkpoint, settings, sorted(queue.tops), _READ)
    followed = since.followed(states)
    entered = None if followed is None else since.entered(items, followed)
    return None if followed is None or entered is None else (entered, followed)
