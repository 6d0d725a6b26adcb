"""Claims that are played to say what keeps items back, and not written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow as pa

from spark_queue.config import QueueConfig
from spark_queue.errors import SparkNeededError
from spark_queue.flow import has_pass, is_paced
from spark_queue.log.heads import StatusHead
from spark_queue.rules.bounds import Played
from spark_queue.rules.pacing import Paces
from spark_queue.sql.planner_choice import planner_of
from spark_queue.sql.sql_engines import LogRows
from spark_queue.state.replica_rows import read_debts
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store

DEBTS = pa.schema(
    [("by", pa.string()), ("key", pa.string())]
    + [(name, pa.int64()) for name in ("tat", "at", "righted", "shut")]
)

#: How many items are open at most where a claim is played to count them, and to say of one why it
#: waits: a process holds each that comes before it.
_COUNTED, _EXPLAINED = 50_000, 1_000_000


def play(store: Store, now: datetime, item: int | None) -> Played:
    """Return what a claim of any length would take.

    Where neither a limit nor a rate keeps items back none starts in the place of another. Of too
    many items none is played.

    Parameters
    ----------
    item : int, optional
        The item that is asked about: it is played of many more, until it takes this one.
    """
    at = Snapshot(store)
    config = at.settings.config
    has_rules = has_pass(config) or config.max_in_flight is not None
    is_many = at.outstanding > (_COUNTED if item is None else _EXPLAINED)
    if at.settings.paused or not has_rules or is_many:
        return Played()
    try:
        return planner_of(store).play(at, now, item)
    except SparkNeededError:
        # A claim of a few of them is decided here all the same.
        return Played()


def taken_table(played: Played) -> pa.Table:
    """Return the items that a claim would take."""
    return pa.table([pa.array(sorted(played.starting), pa.int64())], ["seq"])


def debts_of(
    store: Store, head: StatusHead, logs: LogRows[Any], find: Callable[[], Played]
) -> pa.Table:
    """Return what keys of rates owe after a claim; nothing is read of a queue without rates."""
    config = store.settings(head).config
    if not is_paced(config):
        return DEBTS.empty_table()
    return _debts_table(logs.debts_of(store, head), config, find())


def _debts_table(rows: pa.Table, config: QueueConfig, played: Played) -> pa.Table:
    """Return what keys of rates owe by rows of a log, in nanoseconds, and after a claim."""
    paces = Paces(config)
    owed = read_debts(rows)
    owed |= {(by, key): debt for by, key, debt in paces.name_debts(played.debts)}
    shut = {(paces.rate_of(key).text, key[1]): at for key, at in played.closed.items()}
    found = [
        {
            "by": by,
            "key": key,
            "tat": debt.tat,
            "at": debt.at,
            "righted": debt.righted,
            "shut": shut.get((by, key)),
        }
        for (by, key), debt in owed.items()
    ]
    return pa.Table.from_pylist(found, DEBTS)
