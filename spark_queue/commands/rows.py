"""Rows of this process on their way into a queue: no frame of Spark unless Spark has to decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from spark_queue import tracing
from spark_queue.columns import key_rules, kinds
from spark_queue.columns.arrow.arrow_keys import mark_rows
from spark_queue.columns.arrow.rows import fit_rows, sort_rows
from spark_queue.columns.kinds import Field
from spark_queue.errors import SparkNeededError
from spark_queue.log.schema import TRACE, carries_traces, require_inputs, user_names
from spark_queue.sql.decisions import GivenRows
from spark_queue.sql.planner_choice import planner_of
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
    is_table = isinstance(given, pa.Table) or type(given).__module__.startswith("pandas.")
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
    return _fields(at.columns)


@lru_cache(maxsize=64)
def _fields(columns: str) -> tuple[Field, ...]:
    """Return the user's columns among all."""
    users = user_names(columns)
    return tuple(field for field in kinds.read(columns) if field.name in users)
