"""Reads and writes of a front in its queue's tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any, Protocol

import pyarrow as pa

from spark_queue.delta.input.measures import Measure
from spark_queue.delta.ownership import GivenBack
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.wishes import PlainSession
from spark_queue.journal.records import Entry


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
        """Return the ids up to one that are of later steps than a given one."""

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
    name = "by_columns" if isinstance(store.session, PlainSession) else "by_spark"
    tables: JournalTables = import_module(f"spark_queue.delta.journal.{name}").of(store)
    return tables
