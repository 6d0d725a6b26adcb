"""Rows of an enqueue: as they are checked and marked without Spark, and what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue import tracing
from spark_queue.columns import key_rules, kinds
from spark_queue.columns.arrow.arrow_keys import mark_rows
from spark_queue.columns.arrow.rows import fit_rows, sort_rows
from spark_queue.columns.kinds import Field
from spark_queue.commands.batches import SourceBatch
from spark_queue.errors import SparkNeededError
from spark_queue.extras import is_of
from spark_queue.log.heads import Mark
from spark_queue.log.schema import (
    ITEM,
    OUTCOME,
    REFUSED,
    TRACE,
    carries_traces,
    require_inputs,
)
from spark_queue.results import RepeatedBatch
from spark_queue.sql.decisions import GivenRows
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state.request import EnqueueFacts
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.tracing import Traces

#: Rows up to which they are looked at one by one.
FEW = 10_000


@dataclass(frozen=True, slots=True)
class MarkedRows:
    """Rows that were checked, with their keys."""

    store: Store
    given: pa.Table
    """The user's columns, and those of the log that they come with."""
    rows: pa.Table
    extra: tuple[str, ...] = ()
    """Which of them are of the log."""
    trace: Traces = None
    """Which trace they belong to, or each of them."""

    def with_trace(self, trace: Traces) -> MarkedRows:
        """Return the rows with a trace, or with one each; unchanged for ``None``.

        Raises
        ------
        InvalidArgumentError
            When there is not one for each.
        """
        if trace is None or not carries_traces(self.store.columns()):
            return self
        count = len(self.rows)
        tracing.require_one_each(trace, count, is_ordered=False)
        texts = pa.array([trace] * count if isinstance(trace, str) else trace, pa.string())
        return replace(self, rows=self.rows.append_column(TRACE, texts), trace=trace)

    def count(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def stage(self) -> Any:
        """Return the rows as Spark has them, evaluated and numbered."""
        settings = self.store.settings(self.store.status_head())
        given = GivenRows(self.given, settings, extra=self.extra, trace=self.trace)
        return planner_of(self.store).frame(given).stage()


def join_rows(parts: Sequence[MarkedRows]) -> MarkedRows:
    """Return rows of the same columns, one after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    traces = None
    if any(part.trace is not None for part in parts):
        traces = [trace for part in parts for trace in part.rows[TRACE].to_pylist()]
    return MarkedRows(
        first.store,
        pa.concat_tables([part.given for part in parts]),
        pa.concat_tables([part.rows for part in parts]),
        trace=traces,
    )


def check_rows(
    store: Store,
    given: object,
    *,
    order_by: str | Sequence[str] | None = None,
    at: Snapshot | None = None,
) -> MarkedRows:
    """Check rows, and compute their keys.

    Parameters
    ----------
    store : Store
        The queue.
    given : list of dict, pyarrow.Table or pandas.DataFrame
        The rows; and the errors: :func:`~spark_queue.columns.arrow.rows.fit_rows`.
    order_by : str or sequence of str, optional
        Columns by which they are put in order.
    at : Snapshot, optional
        The queue as the caller has seen it a moment ago.
    """
    at = Snapshot(store) if at is None else at
    rows = _check(at, given, order_by)
    require_inputs(at.columns, rows.given.column_names)
    return rows


def _check(
    at: Snapshot, given: object, order_by: str | Sequence[str] | None, *, is_again: bool = False
) -> MarkedRows:
    store, settings, columns = at.store, at.settings, user_columns(at)
    key_rules.require_same_texts(store.name, settings, columns)
    table = sort_rows(fit_rows(given, columns), order_by)
    marked = mark_rows(table, columns, settings.config, is_again=is_again)
    return MarkedRows(store, table, marked)


def checked_again(store: Store, given: pa.Table, extra: Sequence[str]) -> MarkedRows:
    """Check rows that were items before, with some of their columns of the log."""
    frame = _check(Snapshot(store), given.drop_columns(list(extra)), None, is_again=True)
    users, named = frame.given, frame.rows
    for name in extra:
        users, named = (rows.append_column(name, given[name]) for rows in (users, named))
    return MarkedRows(store, users, named, tuple(extra))


def checked_here(at: Snapshot, given: object, order_by: object) -> MarkedRows | None:
    """Check few rows that are in this process already; ``None`` where Spark has to.

    That is where they are a frame of Spark, are many, or have a key that only Spark computes.
    """
    is_table = isinstance(given, pa.Table) or is_of(given, "pandas")
    if not is_table or order_by is not None or len(given) > FEW:  # type: ignore[arg-type]
        return None
    try:
        return check_rows(at.store, given, at=at)
    except SparkNeededError:
        return None


def columns_of(store: Store) -> tuple[Field, ...]:
    """Return the user's columns.

    Raises
    ------
    SparkNeededError
        When only Spark reads the tables.
    """
    return user_columns(Snapshot(store))


def user_columns(at: Snapshot) -> tuple[Field, ...]:
    """Return the user's columns as of a snapshot; errors as for :func:`columns_of`."""
    store = at.store
    if at.item_log is None and (at.is_local or not store.queue.is_followed()):
        raise SparkNeededError(f"to enqueue into {store.name!r}", store.queue.why_spark())
    return kinds.read_users(at.columns)


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
