"""Whether small steps of a queue are decided in this process, and the replica for that."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from spark_queue.delta.replica.reading import replica_of
from spark_queue.delta.replica.state import ENTERED, FOLLOWED, Replica, merged
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import QueueHead, Registered, StatusHead
from spark_queue.reader_config import ReaderConfig
from spark_queue.session import SMALL_STEPS

#: Rows that a queue may have had for its state to be read from its logs.
_READ = 200_000

#: Files that a log may have for that: one for each step since it was compacted, two milliseconds
#: each.
_FILES = 2_000

#: Open items up to which steps are decided here: each decision looks at all of them.
_OPEN = 10_000

#: Dedup keys that are remembered at most.
_KEYS = 100_000


def at_hand(store: Store) -> Replica | None:
    """Return the state of a reader's items as of its newest steps; ``None`` if Spark has to decide.

    Asked under the lock of the log that is written next, so that it stays what it is.
    """
    if not is_wanted(store):
        return None
    queue, status = store.queue_head(), store.status_head()
    facts, settings = queue.readers.get(store.reader), store.settings(status)
    if facts is None or facts.streams:
        return None
    position = store.position()
    known = position.replica
    if known is None or (known.queue, known.status) != (queue.token, status.token):
        known = position.replica = _read(store, queue, status, facts.since_step)
    if known is None:
        return None
    if len(known.keys) > _KEYS:
        known.forget_keys(settings.config.dedup_scope, store.clock.now())
    if len(known.items) > _OPEN or len(known.keys) > _KEYS:
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
    return store.spark.conf.get(SMALL_STEPS, "memory") != "spark"


def is_wanted(store: Store) -> bool:
    """Tell whether that is possible, nobody else can write, and the queue is small."""
    if not store.is_only_writer() or not is_possible(store):
        return False
    head = store.queue_head()
    return store.position().replica is not None or head.items + head.refused <= _READ


def _is_limited(facts: Registered) -> bool:
    limits = ReaderConfig.from_dict(facts.config)
    return limits.max_items is not None or limits.max_bytes is not None


def _read(store: Store, queue: QueueHead, status: StatusHead, since: int) -> Replica | None:
    """Build the state from the rows of both logs; ``None`` where there are too many of them."""
    if queue.items + queue.refused > _READ:
        return None
    items, states = store.native("queue"), store.native("status")
    if items is None or states is None:
        return None
    if items.file_count() > _FILES or states.file_count() > _FILES:
        return None
    entered, followed = items.read(ENTERED), states.read(FOLLOWED)
    replica = replica_of(
        entered.filter(pc.less_equal(entered["_step"], queue.step)),
        followed.filter(pc.less_equal(followed["_step"], status.step)),
        since,
        status.checkpoint.step,
    )
    replica.queue, replica.status = queue.token, status.token
    return replica
