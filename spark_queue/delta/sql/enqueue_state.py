"""Inputs and outcome of an enqueue that SQL decides, and what an engine does for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from spark_queue.delta.planner import Frame
from spark_queue.delta.replica.request import EnqueueRules
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import Pointer, QueueHead
from spark_queue.delta.tables.settings import Settings

#: What is read of an item that may hold a key, of a member of a group, and of the end of a line.
KEYED = (
    *("_seq", "_step", "_priority", "_round", "_fair_key"),
    *("_dedup_key", "_dedup_hash", "_enqueued_at"),
)
MEMBER = ("_seq", "_step", "_priority", "_round", "_fair_key", "_group_key")
LINE = ("_priority", "_fair_key", "_round")

#: What a batch has of a row's columns.
BATCH = ("_priority", "_fair_key", "_group_key", "_cost", "_dedup_key", "_dedup_hash")

#: How many rows a part holds while a batch is sorted in memory.
_ROWS_A_PART = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What one reader, the fullest, still takes; ``None`` where there is no limit."""

    reader: str = ""
    items: int | None = None
    bytes: int | None = None

    def is_bounded(self) -> bool:
        """Tell whether there is any limit."""
        return self.items is not None or self.bytes is not None

    def within(self, reader: str, items: int | None, left: int | None) -> Room:
        """Return the room that is left beside a reader with limits of its own."""
        if items is None and left is None:
            return self
        return Room(reader=reader, items=_less(self.items, items), bytes=_less(self.bytes, left))


def _less(a: int | None, b: int | None) -> int | None:
    return min((n for n in (a, b) if n is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueState:
    """What an enqueue is decided by; see :meth:`admission.admit`."""

    store: Store
    before: QueueHead
    """The head of the step before."""
    pointers: Mapping[int, Pointer]
    """How far the order of service has come, by priority."""
    settings: Settings
    rules: EnqueueRules
    readers: Sequence[Store]
    """The queue as each of its readers sees it that claims."""
    now: datetime

    def least_tags(self) -> dict[int, float]:
        """Return bounds below the stored tags that the order has yet to reach, by priority."""
        turns = {p: self.pointers[p][0] for p in self.before.tops if p in self.pointers}
        least = {p: self.settings.least_tag(p, turn) for p, turn in turns.items()}
        return dict.fromkeys(self.before.tops, -math.inf) | least


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryBatch:
    """The rows of a frame, as an engine has them."""

    rows: Any
    """Without ``_``, by ``seq``: what is decided by, and what the engine keeps for itself."""
    given: Any
    """The rows with all of their columns."""
    count: int
    has_keys: bool

    def parts(self) -> int:
        """Return over how many parts the rows are spread for each to be sorted in memory."""
        return -(-self.count // _ROWS_A_PART)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What was decided of a batch, as tables of the engine."""

    items: Any
    """Rows of the batch with ``lowest``, their priority, and ``place``, the stored tag."""
    refused: Any | None
    """``seq`` and ``duplicate_of``."""
    line_ends: Any | None
    """``priority``, ``fair_key`` and ``round``."""
    group_ends: Any | None
    """``group_key``, ``seq`` and the place of the last member of each group."""
    tops: Mapping[int, float]
    """The highest tag at each priority."""


class EntryRows(Protocol):
    """Rows of a frame, and of the item log for it, as tables of an engine."""

    def batch_of(self, frame: Frame, entry: EnqueueState, room: Room) -> EntryBatch:
        """Return the rows of a frame.

        Raises
        ------
        TooManyRowsError
            When they are too many for the engine, or not such as it takes.
        """

    def keyed_of(self, entry: EnqueueState, batch: EntryBatch) -> Any:
        """Return items that may have a key of the batch: :data:`KEYED`."""

    def redriven_of(self, entry: EnqueueState, since: int) -> Any:
        """Return items of steps since one that were items before: ``origin`` and ``seq``."""

    def line_rows(self, entry: EnqueueState) -> Any:
        """Return ends of lines that the order has yet to reach: :data:`LINE`."""

    def group_rows(self, entry: EnqueueState, groups: Any) -> Any:
        """Return rows that name the last member of one of some groups: :data:`MEMBER`."""

    def members_of(self, entry: EnqueueState, groups: Any) -> Any:
        """Return the items of some groups that the order may have yet to reach."""

    def there_of(self, entry: EnqueueState, members: Any) -> Any:
        """Return the ``seq`` of those of some members that are in the log."""

    def step_rows(self, batch: EntryBatch, decided: Decided, entry: EnqueueState) -> Any:
        """Return the rows of a step as they are logged."""
