"""The newest rows of open items, by what a step asks for: who is in flight, and who is in a group.

A step that looked at all of them would cost the more the more items wait.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from spark_queue.delta.replica.peers import Row
from spark_queue.delta.tables.schema import CLAIMED


@dataclass(slots=True)
class RememberedClaim:
    """What a claim got, and what of it its holder has not settled."""

    rows: dict[int, Row]
    """The rows by which the items were leased, by seq."""
    left: set[int]
    output: str | None = None
    """The table where its holder writes what was done."""
    given_back: set[int] = field(default_factory=set)
    """What is ready again as if it had not been leased: nobody said anything of it."""


class OpenItems(dict[int, Row]):
    """The newest row of each item that is ready or claimed, by seq.

    Rows come and go by ``items[seq] = row`` and ``del items[seq]`` alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self._held: set[int] = set()
        self._groups: dict[str, set[int]] = {}

    def held(self) -> list[Row]:
        """Return the rows of the items in flight, in the order of their seqs."""
        return [self[seq] for seq in sorted(self._held)]

    def members(self, groups: Collection[str]) -> list[Row]:
        """Return the rows of the members of some groups, in the order of their seqs."""
        seqs = [seq for group in groups for seq in self._groups.get(group, ())]
        return [self[seq] for seq in sorted(seqs)]

    def __setitem__(self, seq: int, row: Row) -> None:
        """Let a row be the newest one of an item."""
        if seq in self and self[seq]["_group_key"] != row["_group_key"]:
            self._leave(seq, self[seq]["_group_key"])
        super().__setitem__(seq, row)
        if row["_state"] == CLAIMED:
            self._held.add(seq)
        else:
            self._held.discard(seq)
        if row["_group_key"] is not None:
            self._groups.setdefault(row["_group_key"], set()).add(seq)

    def __delitem__(self, seq: int) -> None:
        """Forget an item that is over."""
        row = self[seq]
        super().__delitem__(seq)
        self._held.discard(seq)
        self._leave(seq, row["_group_key"])

    def _leave(self, seq: int, group: str | None) -> None:
        if group is None:
            return
        members = self._groups[group]
        members.discard(seq)
        if not members:
            del self._groups[group]
