"""What a claim asks for, and what is to be said of the rows that it would write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from spark_queue.delta.tables.heads import Pointer
from spark_queue.delta.tables.schema import CLAIMED

#: How much further than the last claim a claim looks first.
MARGIN = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a claim asks for."""

    limit: int
    lease: timedelta
    worker_id: str
    run: int
    claim_id: str
    repeatable: bool = False
    """Whether the caller named the claim, and may name it again."""
    output: str | None = None
    """The table that gets the results: what it has of a claim is evidence. Items whose lease ran
    out are then not taken as they are; they are settled first, by what is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceFacts:
    """What is to be said of the rows that a claim would write."""

    counts: Mapping[tuple[str, str], int]
    """Rows by (new state, state before)."""
    pointers: Mapping[int, Pointer]
    width: float

    def claimed(self) -> int:
        """Return how many items would be leased."""
        return sum(n for (state, _), n in self.counts.items() if state == CLAIMED)

    def by_state(self) -> dict[str, int]:
        """Return the rows by new state."""
        counts: dict[str, int] = {}
        for (state, _), n in self.counts.items():
            counts[state] = counts.get(state, 0) + n
        return counts

    def total(self) -> int:
        """Return how many rows would be written."""
        return sum(self.counts.values())
