"""Results of an enqueue, and the part of each caller who shares its step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.commands.batches import SourceBatch
from spark_queue.log.heads import Mark
from spark_queue.log.schema import ITEM, OUTCOME, REFUSED
from spark_queue.results import RepeatedBatch
from spark_queue.state.request import EnqueueFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """The result of an enqueue."""

    step: int
    """The step of the item log; 0 where the frame was empty and nothing was written."""
    inserted: int
    duplicates: int
    refused: int = 0
    """Rows for which a reader had no room."""
    busy: int = 0
    """Duplicates of items that have begun."""
    rows: pa.Table | None = None
    """The rows that were logged, where this process has them."""
    repeated: RepeatedBatch | None = None
    """The earlier result of a batch that is not new; then nothing was written."""

    @classmethod
    def of(cls, facts: EnqueueFacts, step: int, rows: pa.Table | None = None) -> Enqueued:
        """Return the result of a step with such rows."""
        return cls(
            step=step,
            inserted=facts.count_inserted(),
            duplicates=facts.duplicates,
            refused=facts.full,
            busy=facts.busy,
            rows=rows,
        )

    @classmethod
    def again(cls, batch: SourceBatch, last: Mark) -> Enqueued:
        """Return the result of a repeated batch; it is complete for a source's last one."""
        known: dict[str, int] = {}
        if batch.number == last.number and last.step is not None:
            counts = ("inserted", "duplicates", "refused")
            known = {name: getattr(last, name) for name in counts}
        return cls(
            step=(last.step or 0) if known else 0,
            inserted=0,
            duplicates=0,
            repeated=RepeatedBatch(number=batch.number, last=last.number, **known),
        )

    def parts(self, counts: Sequence[int]) -> Iterator[Enqueued]:
        """Yield the result of each caller, whose rows are so many of those of the step.

        Their rows were numbered in this order.
        """
        if self.rows is None or len(counts) == 1:
            yield self
            return
        rows = self.rows.filter(pc.is_in(self.rows["_kind"], pa.array([ITEM, REFUSED])))
        first = pc.min(rows["_seq"]).as_py()
        for end, count in zip(accumulate(counts), counts, strict=True):
            until = first + end
            is_its = pc.and_(
                pc.greater_equal(rows["_seq"], until - count), pc.less(rows["_seq"], until)
            )
            yield self._of_rows(rows.filter(is_its))

    def _of_rows(self, rows: pa.Table) -> Enqueued:
        told = Counter(outcome for _, outcome, _, _ in _outcomes(rows))
        return replace(
            self,
            rows=rows,
            inserted=told["inserted"] + told["replaces"] + told["follows"],
            duplicates=told["duplicate"] + told["replaced"],
            refused=told["refused"],
            busy=sum(holder == "busy" for *_, holder in _outcomes(rows)),
        )


def outcome_of_rows(done: Enqueued) -> list[tuple[int, str, int | None, str | None]]:
    """Return each row's seq, outcome, duplicate's seq and holder, where decided in this process."""
    if done.rows is None:
        return []
    return _outcomes(done.rows)


def _outcomes(table: pa.Table) -> list[tuple[int, str, int | None, str | None]]:
    rows = table.select([name for name in OUTCOME if name in table.column_names]).to_pylist()
    return [
        (row["_seq"], outcome_of(row), other_of(row), row.get("_holder"))
        for row in rows
        if row["_kind"] in (ITEM, REFUSED)
    ]


# rule: outcome of a row
def outcome_of(row: Mapping[str, Any]) -> str:
    """Return what became of a row."""
    other = row["_duplicate_of"]
    if row["_kind"] == ITEM:
        return "inserted" if row.get("_replaces") is None else "follows" if other else "replaces"
    return "refused" if other is None else "replaced" if other > row["_seq"] else "duplicate"


def other_of(row: Mapping[str, Any]) -> int | None:
    """Return the item that has the key of a row, or had it."""
    other: int | None = (
        row.get("_replaces") if row["_duplicate_of"] is None else row["_duplicate_of"]
    )
    return other
