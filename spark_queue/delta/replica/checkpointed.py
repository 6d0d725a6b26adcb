"""Contents of a replica, from the newest checkpoint on.

However many items have finished, what counts are the rows of the checkpoint and of the steps since,
and the items that the order had yet to reach then, or that came later. Files without such rows are
not read (``docs/adr/0001-two-logs.md``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.replica.reading import newest_of
from spark_queue.delta.replica.state import ENTERED, FOLLOWED
from spark_queue.delta.tables.files import LogFile
from spark_queue.delta.tables.heads import Checkpoint
from spark_queue.delta.tables.log import Log
from spark_queue.delta.tables.schema import ITEM, KEY, META_LANE, OPEN, OPEN_LANE, TERMINAL
from spark_queue.delta.tables.settings import Settings
from spark_queue.delta.tables.turns import are_unpassed, turns_of


@dataclass(frozen=True, slots=True)
class Since:
    """The rows that count since a checkpoint.

    Parameters
    ----------
    checkpoint : Checkpoint
        The newest one of a reader's log.
    settings : Settings
        The settings in force: a changed weight has made a checkpoint.
    priorities : sequence of int
        All that an item may have.
    most : int
        Rows of a log up to which it is read.
    """

    checkpoint: Checkpoint
    settings: Settings
    priorities: Sequence[int]
    most: int

    def rows_since(self, log: Log[Any]) -> pa.Table | None:
        """Return rows of a status log; ``None`` where there are too many.

        Those of the checkpoint come as what they were before.
        """
        first = self.checkpoint.step
        files = [file for file in log.files() if file.may_have("_step", first)]
        rows = _read(log, files, (*FOLLOWED, "_item_gen"), self.most)
        if rows is None:
            return None
        is_open = pc.equal(rows["_gen"], OPEN_LANE)
        base = pc.and_(is_open, pc.equal(rows["_step"], first))
        since = pc.and_(pc.invert(is_open), pc.greater(rows["_step"], first))
        kinds = pc.if_else(pc.equal(rows["_kind"], OPEN), ITEM, rows["_kind"])
        gens = pc.coalesce(rows["_item_gen"], rows["_gen"])
        rows = _with(_with(rows, "_kind", kinds), "_gen", gens)
        return rows.filter(pc.or_(base, since)).select(FOLLOWED)

    def items_since(self, log: Log[Any], followed: pa.Table) -> pa.Table | None:
        """Return rows of the item log, those of open items in ``followed`` included."""
        newest = newest_of(followed.filter(pc.equal(followed["_kind"], ITEM)))
        is_over = pc.is_in(newest["_state"], pa.array(TERMINAL))
        touched = newest.filter(pc.invert(is_over))["_seq"]
        wanted = [*map(self._may_count, self.priorities), _with_any(touched)]
        files = [file for file in log.files() if any(may(file) for may in wanted)]
        rows = _read(log, files, ENTERED, self.most)
        if rows is None:
            return None
        known = pc.is_in(rows["_seq"], pa.chunked_array(touched, pa.int64()))
        is_item, is_end = pc.equal(rows["_kind"], ITEM), pc.equal(rows["_kind"], KEY)
        ahead = are_unpassed(rows, turns_of(rows, self.settings), self.checkpoint)
        counts = pc.and_kleene(is_item, pc.or_kleene(ahead, known))
        return rows.filter(pc.or_kleene(counts, is_end))

    def _may_count(self, priority: int) -> Callable[[LogFile], bool]:
        """Tell of a file whether it may have items that were ahead, or ends of lines that are."""
        turn = self.checkpoint.pointers.get(priority, (-math.inf, 0))[0]
        least = self.settings.least_tag(priority, turn)

        def may(file: LogFile) -> bool:
            if file.gen >= 0 and file.may_have("_step", self.checkpoint.queue_step + 1):
                return True
            is_read = file.gen >= 0 or file.gen == META_LANE
            return (
                is_read
                and file.may_have("_priority", priority, priority)
                and (file.may_have("_round", least))
            )

        return may


def _with_any(seqs: pa.ChunkedArray) -> Callable[[LogFile], bool]:
    """Tell of a file whether it may have one of some items."""
    known = sorted(seqs.to_pylist())
    return lambda file: file.gen >= 0 and file.may_have_one("_seq", known)


def _read(
    log: Log[Any], files: Sequence[LogFile], columns: Sequence[str], most: int
) -> pa.Table | None:
    if sum(file.rows for file in files) > most:
        return None
    return log.rows_of(files, columns)


def _with(rows: pa.Table, column: str, values: pa.ChunkedArray) -> pa.Table:
    at = rows.schema.get_field_index(column)
    return rows.set_column(at, rows.schema.field(column), values)
