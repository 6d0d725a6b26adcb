"""Fold of a status log since its checkpoint, in Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow.rows import last_of_each, log_of
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import ITEM, OPEN, OPEN_LANE, STATUS_COLUMNS


def recent(store: Store, head: StatusHead, names: Sequence[str]) -> Iterator[pa.Table]:
    """Return the rows of the newest checkpoint up to a step, and of the steps since, by file.

    The partition of a row of a checkpoint is that of its item.
    """
    log, start, end = log_of(store, "status"), head.checkpoint.step, head.step
    for file in log.files():
        if not file.may_have("_step", start, end):
            continue
        rows = log.rows_of(
            [file], tuple(dict.fromkeys((*names, "_gen", "_kind", "_step", "_item_gen")))
        )
        is_base = pc.and_(pc.equal(rows["_gen"], OPEN_LANE), pc.equal(rows["_step"], start))
        since = pc.and_(pc.greater(rows["_step"], start), pc.less_equal(rows["_step"], end))
        is_step = pc.and_(pc.equal(rows["_kind"], ITEM), since)
        at = rows.schema.get_field_index("_gen")
        rows = rows.set_column(at, "_gen", pc.coalesce(rows["_item_gen"], rows["_gen"]))
        yield rows.filter(pc.or_(is_base, is_step)).select(list(names))


def gather(parts: Iterable[pa.Table], names: Sequence[str]) -> pa.Table:
    """Return parts of a status log as one table, which has these columns even without rows."""
    nothing = STATUS_COLUMNS.arrow.empty_table().select(list(names))
    return pa.concat_tables([nothing, *parts], promote_options="default")


# rule again: newest row of an item
def find_touched(store: Store, head: StatusHead, names: Sequence[str]) -> pa.Table:
    """Return the newest row of every item that was touched, or passed before the checkpoint.

    It is what :func:`spark_queue.delta.plans.fold.find_touched` returns of some columns.
    """
    wanted = tuple(dict.fromkeys(("_kind", "_step", "_seq", *names)))
    rows = gather(recent(store, head, wanted), wanted)
    rows = rows.filter(pc.is_in(rows["_kind"], pa.array([ITEM, OPEN])))
    return last_of_each(rows, "_step").select(list(names))
