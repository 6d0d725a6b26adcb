"""Generations of items that are over, found by columns of Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow.needed import find_needed
from spark_queue.delta.arrow.rows import rows_of
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import TERMINAL
from spark_queue.delta.upkeep.generations import Generation


@dataclass(frozen=True, slots=True)
class FinishedByColumns:
    """See :class:`~spark_queue.delta.upkeep.generations.Finished`."""

    store: Store

    def closed_before(self, before: int) -> list[Generation]:
        """See :class:`Finished`."""
        rows = rows_of(self.store, "queue", ("_gen", "_step"))
        is_old = pc.and_(pc.greater_equal(rows["_gen"], 0), pc.less(rows["_gen"], before))
        rows = rows.filter(is_old)
        facts = rows.group_by("_gen").aggregate([("_step", "count"), ("_step", "max")])
        told = facts.sort_by("_gen").select(["_gen", "_step_count", "_step_max"]).to_pydict()
        return [Generation(*fact) for fact in zip(*told.values(), strict=True)]

    def find_needed(self, reader: Store, since: int | None) -> set[int]:
        """See :class:`Finished`."""
        return set(pc.unique(find_needed(reader, since)["_gen"]).to_pylist())

    def ends(self, reader: Store) -> dict[int, datetime]:
        """See :class:`Finished`."""
        rows = rows_of(reader, "status", ("_gen", "_state", "_at"))
        over = pc.is_in(rows["_state"], pa.array(TERMINAL))
        rows = rows.filter(pc.and_(over, pc.greater_equal(rows["_gen"], 0)))
        last = rows.group_by("_gen").aggregate([("_at", "max")]).to_pydict()
        return dict(zip(last["_gen"], last["_at_max"], strict=True))
