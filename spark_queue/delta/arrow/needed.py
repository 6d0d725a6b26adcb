"""Items that a reader still needs, in Arrow."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow import snapshot
from spark_queue.delta.arrow.rows import rows_of
from spark_queue.delta.store import existence
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CLAIMED, READY, STATUS_COLUMNS

_WHICH = ["_seq", "_gen"]
_NOTHING = STATUS_COLUMNS.arrow.empty_table().select(_WHICH)


def find_needed(reader: Store, since: int | None = None) -> pa.Table:
    """Return the items that a reader is not done with: ``_seq`` and ``_gen``.

    Parameters
    ----------
    reader : Store
        The queue as the reader sees it. One that reads a stream is not done with the
        items behind where it said to be, and one that has no log with nothing.
    since : int, optional
        A step of its log as of which that is known: then what was in its hands, or came back to
        it, after that one; to a stream nothing does.
    """
    if reader.registered().streams:
        return _NOTHING if since is not None else _unread(reader)
    if not existence.is_prepared(reader):
        return _unread(reader)
    rows = snapshot.status(reader) if since is None else _find_moved(reader, since)
    return rows.filter(pc.is_in(rows["_state"], pa.array([READY, CLAIMED]))).select(_WHICH)


def _unread(reader: Store) -> pa.Table:
    rows = rows_of(reader, "queue", ("_step", *_WHICH))
    return rows.filter(pc.greater(rows["_step"], reader.registered().since_step)).select(_WHICH)


def _find_moved(reader: Store, since: int) -> pa.Table:
    """Return where the steps after one have brought items."""
    columns = ("_step", "_state", *_WHICH)
    rows = rows_of(reader, "status", columns, lambda file: file.may_have("_step", since + 1))
    return rows.filter(pc.greater(rows["_step"], since))
