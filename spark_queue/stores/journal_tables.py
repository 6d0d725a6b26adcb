"""Reads and writes of a front in its queue's tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, Protocol

import pyarrow as pa

from spark_queue.columns.measures import Measure
from spark_queue.log.heads import StatusHead
from spark_queue.log.schema import READY, TERMINAL
from spark_queue.log.session_options import PlainSession
from spark_queue.memory.journal.records import Entry, ReaderOffset
from spark_queue.state.store import Store
from spark_queue.stores.ownership import GivenBack


@dataclass(frozen=True, slots=True)
class Touched:
    """What the newest row of an item says in the log of a reader."""

    seq: int
    state: str
    attempts: int


class JournalTables(Protocol):
    """The tables of a queue, as a front reads them."""

    measure: Measure
    """Returns how many bytes an item counts; refuses what the columns cannot hold."""

    def values(self, puts: Sequence[Entry[object]]) -> Mapping[str, pa.Array]:
        """Return the user's columns of items that fit."""

    def entries(self, first: int, last: int) -> list[Entry[object]]:
        """Return the items from an id to another, in any order."""

    def next_id(self, first: int) -> int | None:
        """Return the lowest id of an item from one on; ``None`` where there is none."""

    def generations(self) -> list[tuple[int, int]]:
        """Return the first id of each generation, and its number."""

    def origins(self, passed: int) -> dict[str, int]:
        """Return the items behind an id that replace another, by the name of that one."""

    def last_step(self, seq: int) -> int:
        """Return a step up to which all items have an id up to this one, and behind it none."""

    def ids_after(self, step: int, last: int) -> list[int]:
        """Return the ids up to one whose steps are later than a given step."""

    def find_touched(self, place: Store, head: StatusHead) -> list[Touched]:
        """Return what a reader's log has rows of."""

    def bytes_of(
        self, place: Store, passed: int, done: Collection[int], back: Collection[int]
    ) -> int:
        """Return how many bytes wait: of what lies behind an id and is not done, or came back."""

    def release_claimed(self, place: Store, head: StatusHead) -> GivenBack:
        """Return the rows that give claimed items back, without a worker id, and how many."""

    def tidy(self, retention: timedelta | None, archive_to: str | None) -> None:
        """Drop what finished before the retention, and merge small files."""


def by_column(puts: Sequence[Entry[Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of items: with one column an item is its value."""
    if len(names) == 1:
        return {names[0]: [put.item for put in puts]}
    return {name: [put.item[name] for put in puts] for name in names}


def tables_of(store: Store) -> JournalTables:
    """Return who reads the tables of a store; nothing of Spark is imported where it is not it."""
    name = "journal_by_columns" if isinstance(store.session, PlainSession) else "journal_by_spark"
    tables: JournalTables = import_module(f"spark_queue.stores.{name}").of(store)
    return tables


def offset(tables: JournalTables, place: Store) -> ReaderOffset:
    """Return where a reader is: what it is done with, what it failed at, and how much waits."""
    head = place.status_head()
    facts = place.registered()
    rows = tables.find_touched(place, head)
    done = {row.seq for row in rows if row.state in TERMINAL}
    begins = _begin_of(place, facts.since_step)
    passed = max(begins, head.pointers.get(0, (0.0, begins))[1])
    behind = frozenset(seq for seq in done if seq > passed)
    back = [row.seq for row in rows if row.state == READY and row.seq <= passed]
    return ReaderOffset(
        reader=place.reader,
        name=facts.name,
        config=place.reader_config(),
        created_at=_instant(facts.at) or place.clock.now(),
        head=_head(passed, done, rows),
        done=behind,
        items=place.outstanding(head),
        bytes=tables.bytes_of(place, passed, behind, back),
        errors={row.seq: row.attempts for row in rows if row.state == READY and row.attempts},
    )


def _begin_of(store: Store, step: int) -> int:
    """Return the last id of the steps up to one."""
    if step == 0:
        return 0
    at = store.queue.head_at(step)
    return 0 if at is None else at.last_seq


def _head(passed: int, done: set[int], rows: Sequence[Touched]) -> int:
    """Return the highest id with everything up to it done; touched rows count by themselves."""
    open_before = [row.seq for row in rows if row.seq <= passed and row.seq not in done]
    head = min(open_before) - 1 if open_before else passed
    while head + 1 in done:
        head += 1
    return head


def _instant(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
