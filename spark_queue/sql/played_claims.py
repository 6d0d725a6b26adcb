"""Tables of a claim that is played to say what keeps items back, and not written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from spark_queue.config import QueueConfig
from spark_queue.flow import is_paced
from spark_queue.log.heads import StatusHead
from spark_queue.rules.bounds import Played
from spark_queue.rules.pacing import Paces
from spark_queue.sql.sql_engines import LogRows
from spark_queue.state.replica_rows import read_debts
from spark_queue.state.store import Store

DEBTS = pa.schema(
    [("by", pa.string()), ("key", pa.string())]
    + [(name, pa.int64()) for name in ("tat", "at", "righted", "shut")]
)


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
