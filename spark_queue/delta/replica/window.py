"""What of a queue is not in memory: the items that wait, untouched, further back than a horizon.

An item that waits and was never touched lies in the item log, at its place in the order of
service. Up to the horizon all of them are among the items of a replica; the next ones are at hand
as columns, and those after them are in the tables. What was touched is in memory wherever it
stands.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from spark_queue.config import QueueConfig
from spark_queue.delta.replica.hashes import KeyHashes
from spark_queue.delta.tables.schema import SCHEDULE
from spark_queue.delta.tables.settings import Settings

#: A place in the order of service: negated priority, turn, seq.
Place = tuple[float, float, float]

#: A row of a log, by column.
Row = dict[str, Any]

#: A fair key at a priority.
LineKey = tuple[int, str | None]

#: What is read of an item that waits.
WAITING = ("_seq", "_gen", *SCHEDULE, "_errors")

#: Whether an item waited, untouched, when the window was made, or has entered since.
WAITED = "_waited"

#: Before everything.
NOWHERE: Place = (-math.inf, -math.inf, 0)


class Source(Protocol):
    """The tables, as of the step up to which the item log is known."""

    hashes: KeyHashes
    """The dedup keys of the items, as far as they were learnt."""

    def as_of(self, step: int, priorities: Sequence[int]) -> None:
        """Look at the item log as of a step, and at items of these priorities."""

    def go_on(self, hashes: KeyHashes) -> None:
        """Go on with keys that were learnt of the same log."""

    def remember_to(self, step: int) -> None:
        """Note that the keys of later steps are remembered elsewhere."""

    def next_turns(self, after: Place, most: int) -> tuple[pa.Table, Place | None]:
        """Return untouched items in the order of service, and the place up to which those are all.

        Parameters
        ----------
        after : Place
            Those up to here are known.
        most : int
            How many are returned at most; fewer where that is the end of what waits.

        Returns
        -------
        tuple
            The columns :data:`WAITING`, and a place; ``None`` where nothing waits behind it.
        """

    def items_of(self, hashes: Collection[int], seqs: Collection[int]) -> Iterable[Row]:
        """Return items that may have a dedup key of some hashes, and items of some seqs.

        Each says by :data:`WAITED` whether it had not been touched when the window was made.
        """

    def ends_of(self, lines: Collection[LineKey]) -> Mapping[LineKey, float]:
        """Return the last tag that each of some lines has given out, where it has given out any."""


@dataclass(slots=True)
class Window:
    """How much of what waits is in memory.

    Attributes
    ----------
    source : Source
        Where the rest is.
    settings : Settings
        The settings by which places are worked out.
    ahead : int
        How many rows are read from the source at a time.
    horizon : Place, optional
        Up to here all items are in memory; ``None`` where none lies beyond.
    read_to : Place, optional
        Up to here the rows that wait are at hand; ``None`` where nothing else is in the tables.
    rows : pyarrow.Table, optional
        Those between the two, in the order of service, from ``at`` on.
    gone : set of int
        Items beyond the horizon that have ended.
    since : int
        The reader sees the items of later steps.
    left_out : set of int
        Items that have entered beyond what is at hand, and whose keys are remembered.
    looks_up_ends : bool
        Whether a line that is not remembered may have given out tags.
    """

    source: Source
    settings: Settings
    ahead: int
    since: int = 0
    horizon: Place | None = NOWHERE
    read_to: Place | None = NOWHERE
    rows: pa.Table | None = None
    at: int = 0
    gone: set[int] = field(default_factory=set)
    left_out: set[int] = field(default_factory=set)
    looks_up_ends: bool = False
    begun: int = 0
    """How many items were in memory when it was made."""
    is_in_doubt: bool = False
    """Whether an item came back of which nothing is known: its key may be held again."""

    def place(self, row: Row) -> Place:
        """Return where an untouched item stands in the order of service."""
        return place_of(row, self.settings)

    def has(self, row: Row) -> bool:
        """Tell whether an item waits beyond the horizon; it is not in memory."""
        is_seen = row["_step"] > self.since and row[WAITED]
        return is_seen and self.is_beyond(row) and row["_seq"] not in self.gone

    def is_beyond(self, row: Row) -> bool:
        """Tell whether the place of an item lies beyond the horizon."""
        return self.horizon is not None and self.place(row) > self.horizon

    def leaves_out(self, row: Row) -> bool:
        """Tell whether an item that enters stays in the tables until the order comes to it."""
        return self.read_to is not None and self.place(row) > self.read_to

    def end(self, row: Row) -> None:
        """Note that an item has ended, which may wait in the tables."""
        if self.horizon is None:
            return
        # What ends an item need not say where it stood.
        if row.get("_round") is None or row.get("_priority") is None or self.is_beyond(row):
            self.gone.add(row["_seq"])

    def next_rows(self, most: int) -> list[Row]:
        """Return the items that wait behind the horizon, which moves on; perhaps none of them."""
        if self.rows is None and self.read_to is not None:
            self.rows, self.read_to = self.source.next_turns(self.read_to, self.ahead)
            self.at = 0
        if self.rows is None:
            self.horizon = self.read_to
            return []
        found: list[Row] = self.rows.slice(self.at, most).to_pylist()
        self.at += len(found)
        if self.at < self.rows.num_rows:
            self.horizon = self.place(found[-1])
        else:
            self.horizon, self.rows = self.read_to, None
        return found


def place_of(row: Row, settings: Settings) -> Place:
    """Return where an item stands in the order of service by its own tag."""
    turn = settings.turn(row["_priority"], row["_fair_key"], row["_round"])
    return (-row["_priority"], turn, row["_seq"])


def may_be_cut(config: QueueConfig) -> bool:
    """Tell whether the order of service is that of the places, for what was never touched.

    Where members of a group have turns of several lines, or priorities, a later one may stand
    before an earlier one, and an item of a line before one that has its turn.
    """
    return config.group_key is None or (config.fair_key is None and config.priority is None)
