"""Limits by key: how many items of each key are in flight, and what a claim may add to them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_queue.config import QueueConfig
from spark_queue.flow import Bound, key_texts

#: A key, with the place of its limit among those of the queue.
Limited = tuple[int, Hashable]

#: The keys of an item, in the places of ``key_texts``; one that entered before a limit has fewer.
ItemKeys = Sequence[Hashable]

#: Where a row in a log has its item, and the keys of it.
ITEM_KEYS = ("_seq", "_fair_key", "_group_key", "_flow_keys")


def keys_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the keys of an item by its row in a log."""
    stored = row["_flow_keys"]
    return (row["_fair_key"], row["_group_key"], *(json.loads(stored) if stored else ()))


@dataclass(frozen=True, slots=True)
class KeyPlaces:
    """Where the keys of bounds are found in an item.

    Attributes
    ----------
    places : sequence of int or None
        By bound: the place of its key among the fair key, the group key and the stored ones; None
        for what all items have in common.
    """

    places: Sequence[int | None]

    @classmethod
    def of(cls, config: QueueConfig, bounds: Sequence[Bound]) -> KeyPlaces:
        """Return where the keys of some bounds are by a configuration."""
        texts = key_texts(config)
        return cls([None if one.by is None else texts.index(one.by) for one in bounds])

    def find(self, keys: ItemKeys) -> tuple[Limited, ...]:
        """Return the keys of an item that are bounded; that of the whole queue is no text."""
        found = []
        for number, at in enumerate(self.places):
            key = "" if at is None else keys[at] if at < len(keys) else None
            if key is not None:
                found.append((number, key))
        return tuple(found)


class Limits:
    """Items in flight by key.

    Hooks: ``count`` when an item is claimed or no longer is, ``is_full`` before one starts.

    Attributes
    ----------
    tell : callable
        Is told of each key that became full, or has room again.
    """

    __slots__ = ("_limits", "flights", "keys", "tell")

    def __init__(self, config: QueueConfig) -> None:
        self._limits = config.limits
        self.tell: Callable[[Limited], None] = lambda _: None
        self.keys = KeyPlaces.of(config, config.limits)
        self.flights: dict[Limited, int] = {}

    def count(self, keys: Sequence[Limited], by: int) -> None:
        """Count an item of some keys in, or out."""
        for key in keys:
            before = self.flights.get(key, 0)
            after = before + by
            if after:
                self.flights[key] = after
            else:
                del self.flights[key]
            most = self._limits[key[0]].most(key[1])
            if most is not None and (before < most) != (after < most):
                self.tell(key)

    # rule: limit of a key
    def room(self, limited: Limited) -> float:
        """Return how many more items of a key may be in flight; infinity for any number."""
        number, key = limited
        if number < 0:
            # A rate says in each claim anew what may start.
            return math.inf
        most = self._limits[number].most(key)
        return math.inf if most is None else max(0, most - self.flights.get(limited, 0))

    def is_full(self, limited: Limited) -> bool:
        """Tell whether no item of a key may start."""
        return not self.room(limited)
