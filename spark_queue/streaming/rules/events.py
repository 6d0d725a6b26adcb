"""State of one bucket of keys, and its answers to events.

Each of these embeds the rule of the in-memory scheduler, and can be written down as plain data and
read back. What comes out depends on the events and their order, not on how they were cut into
batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

#: What a row says. At one instant completions come first: they free what an arrival may take.
COMPLETION, ARRIVAL, CLOCK = 0, 1, 2


class Event(NamedTuple):
    """One row, as a bucket sees it; events of a batch are applied in the order of their fields."""

    at: int
    """When, in microseconds; 0 where rows have no time."""
    kind: int
    """:data:`COMPLETION`, :data:`ARRIVAL` or :data:`CLOCK`."""
    seq: int
    """The explicit sequence; of a completion, that of the item it is about."""
    key: str | None
    """The key or group."""
    number: float
    """What the operator needs besides: a cost, a round, the number of a run."""
    outcome: str | None
    """Of a completion, how it went."""
    row: int
    """Of an arrival, the number under which its row is kept; -1 for others."""


class Outgoing(NamedTuple):
    """A row that goes out."""

    row: int
    """The number of the row that came in."""
    number: float
    """What the operator says of it: its round, or the number of its run."""


class BucketRules(Protocol):
    """The state of one bucket."""

    counts: dict[str, int]
    """How many events of each sort there were, since the query's first batch."""

    def apply(self, events: Iterable[Event]) -> list[Outgoing]:
        """Take in events, in order, and answer what goes out."""
        ...

    def pending(self) -> Iterable[int]:
        """Return the numbers of the rows that may go out later."""
        ...

    def remembers_keys(self) -> bool:
        """Tell whether something is known of a key, which a change of its text would lose."""
        ...

    def dump(self) -> dict[str, Any]:
        """Return everything but the rows as plain data for JSON."""
        ...

    def load(self, plain: Mapping[str, Any]) -> None:
        """Go on where plain data was written."""
        ...


class Counting:
    """Counts of what happened, which stay when everything else is gone."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def count(self, what: str, more: int = 1) -> None:
        """Count some more."""
        if more:
            self.counts[what] = self.counts.get(what, 0) + more

    def pending(self) -> Iterable[int]:
        """Return the numbers of the rows that may go out later: none."""
        return ()
