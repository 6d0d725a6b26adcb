"""Inputs of a decision, and the facts it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.checks import (
    BYTES_PER_CLAIM,
    optional,
    require_choice,
    require_duration,
)
from spark_queue.config import OnDuplicate, QueueConfig
from spark_queue.errors import DuplicateItemError, InvalidArgumentError
from spark_queue.flow import require_debounce
from spark_queue.log.heads import ClaimSize, Pointer, StatusHead
from spark_queue.log.schema import CLAIMED
from spark_queue.log.step_events import Engine
from spark_queue.rules.fairness import Level
from spark_queue.rules.places import Holding
from spark_queue.rules.replacing import Replacing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: How much further than the last claim a claim looks first.
_MARGIN = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The arguments of a claim, checked."""

    limit: int
    lease: timedelta
    worker_id: str
    run: int
    claim_id: str
    repeatable: bool = False
    """Whether the caller named the claim, and may name it again."""
    output: str | None = None
    """The table that gets the results: what it has of a claim is evidence."""
    max_bytes: int = BYTES_PER_CLAIM
    """Bytes of rows, where they are known; one item may have more."""
    target: timedelta | None = None
    """How long its items are to take; ``None`` where ``limit`` alone says how many they are."""
    size: ClaimSize | None = None
    """Why it is so long, where it goes by that time, and the queue can say so."""
    hands: int | None = None
    """How many items begin at once, one for each hand; ``None`` where all of a claim do."""
    spared: frozenset[int] = frozenset()
    """Leases whose items are their holder's although their time is over: their claims name outputs,
    which could not be asked."""

    def fitting(self, fewer: int) -> Request:
        """Return the request for so few items that their rows are not too large."""
        size = self.size and replace(self.size, most=fewer, why="bytes")
        return replace(self, limit=fewer, size=size)

    def size_granted(self, step: int, items: int) -> ClaimSize | None:
        """Return the length of the claim that a step grants."""
        return self.size and replace(self.size, step=step, items=items)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceFacts:
    """Facts about the rows that a claim would write."""

    counts: Mapping[tuple[str, str], int]
    """Rows by (new state, state before)."""
    pointers: Mapping[int, Pointer]
    width: float

    def count_claimed(self) -> int:
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


class Choice(ChoiceFacts, ABC):
    """The rows that a claim would write."""

    __slots__ = ()

    @abstractmethod
    def table(self) -> DataFrame | pa.Table:
        """Return the rows as they are logged."""

    def seqs(self) -> list[int] | None:
        """Return the items that would be leased, in order; ``None`` where Spark has them."""
        rows = self.table()
        if not isinstance(rows, pa.Table):
            return None
        leased = rows.filter(pc.equal(rows["_state"], CLAIMED))["_seq"]
        return sorted(leased.to_pylist())


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedClaim:
    """The result of a claim."""

    step: int
    """The step that granted the lease; 0 where nothing was claimed."""
    count: int
    """How many items it holds."""
    claim_id: str
    claimed_at: datetime
    lease_expires_at: datetime
    over: tuple[int, ...] = ()
    """Of a claim that is repeated, the items that it does not hold any more."""


OnFull = Literal["raise", "partial"]

OnMismatch = Literal["warn", "raise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueRules:
    """The rules for a frame's rows that cannot be taken."""

    on_duplicate: OnDuplicate | None = None
    """``None``: as the queue is configured."""
    on_full: OnFull = "raise"
    on_mismatch: OnMismatch = "warn"
    redriven_since: int | None = None
    """The step of the item log as of which no row of a redrive was redriven before; ``None`` where
    that does not matter."""
    debounce: timedelta | None = None
    at_most: timedelta | None = None
    """How rows wait for others that replace them; ``None``: as the queue is configured."""

    def __post_init__(self) -> None:
        asked = self.on_duplicate
        for name, value, choices in (
            ("on_duplicate", "skip" if asked is None else asked, get_args(OnDuplicate)),
            ("on_full", self.on_full, ("raise", "partial")),
            ("on_mismatch", self.on_mismatch, ("warn", "raise")),
        ):
            require_choice(name, value, choices)
        optional(require_duration, "debounce", self.debounce)
        optional(require_duration, "at_most", self.at_most)

    def within(self, config: QueueConfig) -> EnqueueRules:
        """Return the rules with what the queue says where they say nothing.

        Raises
        ------
        InvalidArgumentError
            When there is a debounce without its bound, or for rows that replace none.
        """
        asked = self.on_duplicate or config.on_duplicate
        is_timed = (self.debounce, self.at_most) != (None, None)
        if asked == "skip" and not is_timed:
            return self
        if asked != "replace" or is_timed:
            require_debounce(asked, self.debounce, self.at_most, InvalidArgumentError)
            return replace(self, on_duplicate=asked)
        return replace(self, on_duplicate=asked, debounce=config.debounce, at_most=config.at_most)

    def options(self) -> dict[str, Any]:
        """Return the options of ``enqueue`` that say the same."""
        asked = {"on_duplicate": self.on_duplicate, "on_full": self.on_full}
        return {name: value for name, value in asked.items() if value is not None}

    @property
    def raises_duplicates(self) -> bool:
        """Whether a row whose key is taken lets all be refused."""
        return self.on_duplicate == "raise"

    @property
    def replacing(self) -> Replacing | None:
        """How rows replace others of their key; ``None`` where they do not."""
        if self.on_duplicate != "replace":
            return None
        ends = (None if t is None else t.total_seconds() for t in (self.debounce, self.at_most))
        return Replacing(*ends)


#: Of rows of a front: a full reader takes those that fit.
FITTING = EnqueueRules(on_full="partial")

#: Of rows that never replace others.
SKIPPING = EnqueueRules(on_duplicate="skip")

#: What is said of the item that has the key of a refused row.
_HOLDING = {"waits": "which waits", "busy": "which has begun", "over": "which is over"}


def duplicates_error(count: int, key: str, holder: int, holding: Holding) -> DuplicateItemError:
    """Return the error of rows that are refused, the first of them with its key's holder."""
    return DuplicateItemError(count, f"key {key!r} of seq {holder}, {_HOLDING[holding]}")


@dataclass(frozen=True, slots=True)
class EnqueueFacts:
    """Facts about the rows that an enqueue would write."""

    rows: int
    duplicates: int
    full: int
    """Rows for which a reader has no room."""
    tops: Mapping[int, float]
    """The highest tag that is given at each priority."""
    engine: Engine = "python"
    """The engine that decided them."""
    replacing: int = 0
    """Rows that enter although an item has their key."""
    busy: int = 0
    """Duplicates whose key an item has that has begun."""

    def count_inserted(self) -> int:
        """Return how many items would be added."""
        return self.rows - self.duplicates - self.full

    def counts(self) -> dict[str, int]:
        """Return the counts that the step reports."""
        counts = {"inserted": self.count_inserted(), "duplicates": self.duplicates}
        more = {"refused": self.full, "replacing": self.replacing}
        return counts | {name: count for name, count in more.items() if count}


def reached_by(
    head: StatusHead, served: Iterable[tuple[int, float, int]]
) -> tuple[dict[int, Pointer], float]:
    """Return how far the order of service comes by items, and how far ahead the next claim looks.

    Of each item the priority, the turn and the seq are given.
    """
    levels: dict[int, Level] = {}
    for priority, turn, seq in served:
        level = levels.get(priority)
        if level is None:
            levels[priority] = Level(priority, turn, seq)
        else:
            level.advance(turn, seq)
    pointers = {priority: (level.turn, level.seq) for priority, level in levels.items()}
    ahead = (turn - head.pointers.get(p, (0.0, 0))[0] for p, (turn, _) in pointers.items())
    return pointers, _MARGIN * max(ahead, default=0.0)
