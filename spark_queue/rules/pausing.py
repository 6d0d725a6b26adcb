"""Pauses of keys: of which keys no item starts, and until when."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from spark_queue.flow import Keyed, key_texts

if TYPE_CHECKING:
    from spark_queue.rules.rule_model import NewItem, Record

#: Until when each key is paused, with the expression of the key; infinity for an open end.
PausedKeys = Mapping[tuple[str, Hashable], float]


class KeyPauses:
    """The pauses in force, and the live items by their keys.

    Hooks: ``join`` when an item enters, ``leave`` at its end, ``change`` when other pauses come in
    force.

    Attributes
    ----------
    keys : mapping
        The pauses.
    """

    __slots__ = ("_ends", "_members", "_texts", "keys")

    def __init__(self, config: Keyed) -> None:
        self._texts = key_texts(config)
        self._members: dict[tuple[int, Hashable], set[int]] = {}
        self.keys: PausedKeys = {}
        self._ends: dict[int, dict[Hashable, float]] = {}

    def join(self, record: Record) -> None:
        """Note a live item."""
        for at in enumerate(record.new.keys):
            self._members.setdefault(at, set()).add(record.seq)

    def leave(self, record: Record) -> None:
        """Forget an item that is over."""
        for at in enumerate(record.new.keys):
            self._members[at].discard(record.seq)
            if not self._members[at]:
                del self._members[at]

    def change(self, keys: PausedKeys) -> set[int]:
        """Put other pauses in force; return the items that they make a difference to."""
        places = {(by, key): (self._texts.index(by), key) for by, key in {**self.keys, **keys}}
        changed = [at for one, at in places.items() if self.keys.get(one) != keys.get(one)]
        self.keys, self._ends = dict(keys), {}
        for one, until in keys.items():
            place, key = places[one]
            self._ends.setdefault(place, {})[key] = until
        return set().union(*(self._members.get(at, ()) for at in changed))

    # rule: pause of a key
    def end_of(self, new: NewItem) -> float:
        """Return until when an item is paused by any of its keys; minus infinity for never."""
        keys = new.keys
        known = ((keys[at], ends) for at, ends in self._ends.items() if at < len(keys))
        return max((ends.get(key, -math.inf) for key, ends in known), default=-math.inf)
