"""Engines that run views, and what each reads of the logs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from spark_queue.config import QueueConfig
from spark_queue.flow import is_paced
from spark_queue.log.heads import StatusHead
from spark_queue.log.settings import Settings
from spark_queue.log.step_events import Engine
from spark_queue.rules.bounds import Played
from spark_queue.rules.pacing import Paces
from spark_queue.sql import entry_rows, log_rows
from spark_queue.sql.catalogue import setting_values
from spark_queue.sql.database import Database
from spark_queue.sql.entry_rows import EntryRows
from spark_queue.sql.log_rows import Within
from spark_queue.state.replica_rows import read_debts
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_Rows = TypeVar("_Rows")


class Tables(Protocol):
    """Tables of one decision, and views over them; see :class:`Database`."""

    variants: dict[str, str]
    draws_jitter: bool
    parts: int
    lines: int

    def give(self, name: str, *rows: Any) -> None:
        """Give a table a name; of several, a column that one lacks is null."""

    def keep(self, name: str, limit: int = 0) -> None:
        """Compute a view once, as a table for later statements."""

    def rows(self, name: str, limit: int = 0) -> pa.Table:
        """Return the few rows of a view."""

    def find(self, name: str, limit: int = 0) -> Any:
        """Return the rows of a view, which may be many, in the engine's form."""

    def table(self, name: str) -> Any:
        """Return a given or computed table, or the rows of a view."""

    def query(self, text: str) -> list[dict[str, Any]]:
        """Return the few rows of a query over views."""

    def query_each(self, texts: Sequence[str]) -> list[list[dict[str, Any]]]:
        """Return the rows of several queries."""

    def is_empty(self, name: str) -> bool:
        """Tell whether a given or computed table has no rows."""

    def release(self, name: str) -> None:
        """Let go of a given table, so that its memory is free."""

    def close(self) -> None:
        """Forget the tables."""


class LogRows(Protocol[_Rows]):
    """Rows of both logs as tables of an engine; see the functions of :mod:`log_rows`."""

    def states_of(self, store: Store, head: StatusHead) -> _Rows:
        """Return the rows of a status log since its checkpoint."""

    def debts_of(self, store: Store, head: StatusHead) -> pa.Table:
        """Return rows of what keys owe, since the checkpoint and of it."""

    def with_step(self, states: _Rows, rows: Any, step: int) -> _Rows:
        """Return rows of a status log, with those of its next step."""

    def entered_of(self, store: Store, within: Within) -> _Rows:
        """Return items that may wait within reach, at least those wanted."""

    def items_of(self, store: Store, found: _Rows, names: Sequence[str]) -> _Rows:
        """Return columns of the rows by which a table's items entered."""

    def grants_of(self, store: Store, head: StatusHead, lease: int) -> _Rows:
        """Return the rows of a status log from a lease on."""

    def outcomes_of(self, outcomes: DataFrame) -> _Rows:
        """Return a frame's outcomes of items."""

    def with_output(self, store: Store, leases: Collection[int]) -> dict[int, str]:
        """Return the claims, by their leases, that name an output."""

    def status_rows(self, found: _Rows, said: Mapping[str, object]) -> Any:
        """Return rows of a view in the form of the status log."""

    def joined(self, rows: Any, others: Any) -> Any:
        """Return rows of a status log and others; a missing column is null."""


@dataclass(frozen=True, slots=True)
class SqlEngine:
    """Engine of SQL, with what it reads."""

    start: Callable[[Mapping[str, str]], Tables]
    logs: LogRows[Any]
    entries: EntryRows
    name: Engine = "duckdb"


#: SQL in this process over files that it reads.
HERE = SqlEngine(Database, log_rows, entry_rows)


def give_states(database: Tables, states: Any, *views: str) -> None:
    """Give what views make of a status log's rows, and let go of the rows.

    They are most of what a decision holds in memory, while what it asks of them is a part.
    """
    database.give("states", states)
    for view in views:
        database.keep(view)
    database.release("states")


def asked_at(
    now: datetime, config: QueueConfig, max_age: timedelta | None = None
) -> dict[str, object]:
    """Return the row of ``sq_asked`` of a claim of one item after the other, lapsed ones too."""
    return {
        "now": log_rows.micros(now),
        "max_age": log_rows.micros_of(max_age),
        "spared": [],
        "run": 1,
        **setting_values(config),
    }


def give_order(
    give: Callable[[str, pa.Table], None],
    head: StatusHead,
    settings: Settings,
    priorities: Sequence[int],
) -> None:
    """Give the weights of keys, and the pointers of the order of service."""
    give("weights", log_rows.weights_of(settings, priorities))
    before = head.checkpoint.pointers
    give("pointers", log_rows.pointers_of(head.pointers, before, priorities))


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
    """Return the debts of keys after a claim; nothing is read of a queue that is not paced."""
    config = store.settings(head).config
    if not is_paced(config):
        return DEBTS.empty_table()
    return _debts_table(logs.debts_of(store, head), config, find())


def _debts_table(rows: pa.Table, config: QueueConfig, played: Played) -> pa.Table:
    """Return the debts of keys by rows of a log, in nanoseconds, and after a claim."""
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
