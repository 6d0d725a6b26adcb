"""Tags and limits of new items for several readers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from spark_queue.delta.replica.peers import Row
from spark_queue.delta.replica.state import Replica
from spark_queue.delta.replica.window import LineKey
from spark_queue.delta.tables.heads import Pointer


@dataclass(slots=True)
class Several:
    """The replicas of all readers, asked as one: what one of them is not done with is open.

    Attributes
    ----------
    replicas : sequence of Replica
        One of each reader.
    ends : dict
        The last tag of each line that was learnt.
    served : dict
        Nothing: how far the readers have come does not move a new item.
    """

    replicas: Sequence[Replica]
    ends: dict[LineKey, float] = field(default_factory=dict)
    served: dict[tuple[LineKey, bool], float] = field(default_factory=dict)

    def learn_ends(self, lines: Collection[LineKey]) -> None:
        """Bring the last tags of some lines here."""
        for replica in self.replicas:
            replica.learn_ends(lines)
        self.ends = {
            line: max(replica.ends.get(line, 0.0) for replica in self.replicas) for line in lines
        }

    def members(self, groups: Collection[str], pointers: Mapping[int, Pointer]) -> list[Row]:
        """Return what :meth:`Replica.members` says for any of the readers."""
        found: dict[int, Row] = {}
        for replica in self.replicas:
            found |= {row["_seq"]: row for row in replica.members(groups, pointers)}
        return list(found.values())

    def holders(self, asked: Mapping[str, int | None]) -> dict[str, tuple[int, datetime, bool]]:
        """Return the newest item of each of some dedup keys, and whether it is open for any."""
        found: dict[str, tuple[int, datetime, bool]] = {}
        for replica in self.replicas:
            for key, (seq, at, is_open) in replica.holders(asked).items():
                known = found.get(key, (0, at, False))
                found[key] = max(known, (seq, at, is_open))
        return found


#: What new items are measured against.
Measure = Replica | Several
