"""KeyPauses of keys: of which keys no item starts, and until when."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from spark_queue.flow import Keyed, key_texts

if TYPE_CHECKING:
    from spark_queue.rules.rule_model import NewItem

#: Until when each key is paused, with the expression of the key; infinity for an open end.
PausedKeys = Mapping[tuple[str, Hashable], float]


class KeyPauses:
    """The pauses in force, by where an item has its keys.

    Hook: ``end_of`` when an item enters, and when other pauses come in force.
    """

    __slots__ = ("_ends", "keys")

    def __init__(self, config: Keyed, keys: PausedKeys) -> None:
        self.keys = keys
        texts = key_texts(config)
        self._ends: dict[int, dict[Hashable, float]] = {}
        for (by, key), until in keys.items():
            self._ends.setdefault(texts.index(by), {})[key] = until

    # rule: pause of a key
    def end_of(self, new: NewItem) -> float:
        """Return until when an item is paused by any of its keys; minus infinity for never."""
        return max(ends.get(_key_at(new, place), -math.inf) for place, ends in self._ends.items())


def keys_of(row: Mapping[str, Any]) -> tuple[Hashable, ...]:
    """Return the keys of an item by its row in a log, in the places of ``key_texts``."""
    stored = row["_flow_keys"]
    return (row["_fair_key"], row["_group_key"], *(json.loads(stored) if stored else ()))


def _key_at(new: NewItem, place: int) -> Hashable:
    """Return a key of an item by its place in :func:`~spark_queue.flow.key_texts`."""
    keys = (new.fair_key, new.group_key, *new.flow_keys)
    return keys[place] if place < len(keys) else None
