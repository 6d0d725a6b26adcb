"""Untouched items behind a horizon, which are not in memory.

An item that waits and was never touched lies in the item log, at its place in the order of
service. Up to the horizon all of them are among the items of a replica; the next ones are at hand
as columns, and those after them are in the tables. What was touched is in memory wherever it
stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_queue.log.heads import Pointer
from spark_queue.log.schema import READY, TERMINAL
from spark_queue.log.settings import Settings
from spark_queue.rules.fairness import is_passed
from spark_queue.rules.service_order import rank_of
from spark_queue.state.open_items import WAITED, LineKey, Peer, Place, Ranks, Row

if TYPE_CHECKING:
    from spark_queue.state.backlog import TablesAhead

#: Before everything.
NOWHERE: Place = (-math.inf, -math.inf, 0)

#: Items that come into memory at a time, where the order of service has come to the horizon.
_NEXT = 200


class TooManyItemsError(Exception):
    """More items would have to be in memory than a process keeps there."""


@dataclass(slots=True)
class Window:
    """The part of the waiting items that is in memory.

    Attributes
    ----------
    source : TablesAhead
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
        Items that have entered beyond the window, and whose keys are remembered.
    looks_up_ends : bool
        Whether a line that is not remembered may have given out tags.
    ranks : Ranks, optional
        Who waits in the tables, by group and by line, once that was asked for.
    unled : set of int
        Items in memory before which others may be served that are in the tables.
    early : dict of tuple to int
        By line the last item in memory that has the turn of one that it replaced. Earlier items of
        the line come at later turns; yet before it where one is overdue, and the line goes by seq.
    chained : set of int
        Items that others in memory replace, or are replaced by, and that may be in the tables.
    """

    source: TablesAhead
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
    ranks: Ranks | None = None
    unled: set[int] = field(default_factory=set)
    early: dict[LineKey, int] = field(default_factory=dict)
    chained: set[int] = field(default_factory=set)
    begun: int = 0
    """How many items were in memory when it was made."""
    is_in_doubt: bool = False
    """Whether an item came back of which nothing is known: its key may be held again."""

    def place(self, row: Row) -> Place:
        """Return where an untouched item stands in the order of service."""
        return place_of(row, self.settings)

    def has(self, row: Row) -> bool:
        """Whether an item waits beyond the horizon; it is not in memory."""
        is_seen = row["_step"] > self.since and row[WAITED]
        return is_seen and self.is_beyond(row) and row["_seq"] not in self.gone

    def is_beyond(self, row: Row) -> bool:
        """Whether the place of an item lies beyond the horizon."""
        return self._reaches_not(self.place(row))

    def leaves_out(self, row: Row) -> bool:
        """Whether a new item stays in the tables until the order comes to it."""
        if row["_chain"] is not None:
            self.chained |= {row["_chain"], row["_replaces"]}
            return False
        return self.read_to is not None and self.place(row) > self.read_to

    def leave_out(self, row: Row) -> None:
        """Note an item that has entered, and stays in the tables."""
        if row.get("_dedup_key") is not None:
            self.left_out.add(row["_seq"])
        if self.ranks is not None:
            self.ranks.add(row, self.place(row))

    def meet(self, row: Row) -> None:
        """Note that an item is in memory."""
        if self.horizon is None:
            return
        if self.settings.is_clamped():
            self.unled.add(row["_seq"])
        elif row["_chain"] is not None and self.settings.config.fair_key is not None:
            line = (row["_priority"], row["_fair_key"])
            self.early[line] = max(self.early.get(line, 0), row["_seq"])

    # rule: reach of a claim
    def before(self, rows: Collection[Row], known: Container[int], *, in_lines: bool) -> set[int]:
        """Return the items in the tables that may be served before some in memory.

        Parameters
        ----------
        rows : collection of Row
            Those in memory.
        known : container of int
            All that are in memory.
        in_lines : bool
            Whether those before them in their lines are asked for, beside those in their groups.
        """
        ranks, is_over = self._ranks(), self._is_over(known)
        found = ranks.before_in_group(rows, is_over)
        return found | ranks.before_in_line(rows, is_over) if in_lines else found

    # rule: reach of a claim
    def before_early(
        self, in_doubt: Mapping[tuple[int, Hashable], float], known: Container[int], wanted: int
    ) -> set[int]:
        """Return the next items in the tables of lines that go by seq, and have early ones.

        Parameters
        ----------
        in_doubt : mapping
            The lines, and up to which seq all of each must be known.
        known : container of int
            All items in memory.
        wanted : int
            How many of a line.
        """
        found: set[int] = set()
        for line in self.early.keys() & in_doubt:
            row = {"_priority": line[0], "_fair_key": line[1], "_seq": self.early[line]}
            missing = self._ranks().first_in_line(row, self._is_over(known), wanted)
            if not missing:
                del self.early[line]
            elif missing[0] < in_doubt[line]:
                found.update(missing)
        return found

    # rule again: place of a new member
    def last_ahead(
        self, group_key: str, known: Container[int], pointers: Mapping[int, Pointer]
    ) -> Peer | None:
        """Return a group's last member in the tables that the order has not passed."""
        if self.horizon is None or not self.settings.is_clamped():
            return None
        members = self._ranks().members(group_key, self._is_over(known))
        return next((one for one in members if not _is_passed(one.place, pointers)), None)

    def follow(self, known: Row, row: Row) -> None:
        """Follow an item to where a row says that it is.

        Parameters
        ----------
        known : Row
            Its former state here; empty where it was unknown.
        row : Row
            The row.
        """
        if row["_state"] in TERMINAL:
            self._end(known or row)
            return
        if not known and row["_state"] == READY:
            # An item that was given back was claimed before: this one had ended.
            self.is_in_doubt = True
        if not known or self.is_beyond(known):
            # Others have come further: from now on it counts wherever it stands.
            self.meet(row)

    def _end(self, row: Row) -> None:
        """Note the end of an item that may wait in the tables."""
        if self.horizon is None:
            return
        # What ends an item need not say where it stood.
        if row.get("_round") is None or row.get("_priority") is None or self.is_beyond(row):
            self.gone.add(row["_seq"])

    def _ranks(self) -> Ranks:
        if self.ranks is None:
            self.ranks = Ranks(self.source.untouched_items())
        return self.ranks

    def _is_over(self, known: Container[int]) -> Callable[[Peer], bool]:
        def is_over(peer: Peer) -> bool:
            return peer.seq in known or peer.seq in self.gone or not self._reaches_not(peer.place)

        return is_over

    def _reaches_not(self, place: Place) -> bool:
        return self.horizon is not None and place > self.horizon

    def next_rows(self, wanted: int) -> list[Row]:
        """Return the next items behind the horizon, which moves on; perhaps none."""
        if self.rows is None and self.read_to is not None:
            self.rows, self.read_to = self.source.next_turns(self.read_to, self.ahead)
            self.at = 0
        if self.rows is None:
            self.horizon = self.read_to
            return []
        found: list[Row] = self.rows.slice(self.at, max(_NEXT, wanted)).to_pylist()
        self.at += len(found)
        if self.at < self.rows.num_rows:
            self.horizon = self.place(found[-1])
        else:
            self.horizon, self.rows = self.read_to, None
        return found


def place_of(row: Row, settings: Settings) -> Place:
    """Return where an item stands in the order of service by its own tag."""
    turn = settings.turn(row["_priority"], row["_fair_key"], row["_round"])
    return (*rank_of(row["_priority"], turn), row["_seq"])


def _is_passed(place: Place, pointers: Mapping[int, Pointer]) -> bool:
    rank, turn, seq = place
    return is_passed(turn, seq, pointers.get(int(-rank), (0.0, 0)))
