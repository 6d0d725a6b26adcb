"""Deliveries: items that were handed out, each until it is settled."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

from spark_queue.journal.copies import own
from spark_queue.journal.records import Entry

T = TypeVar("T")


class Read(Generic[T]):
    """What a get hands out: an item, and the token to ack, nack or release it with.

    Attributes
    ----------
    entry : Entry
        The item as the journal has it.
    errors : int
        How often it has failed, here and in the queues it came from.
    opened_at : float
        When it was handed out, by the queue's timer; 0 where no reader asks for it.
    """

    __slots__ = ("_item", "entry", "errors", "opened_at")

    def __init__(self, entry: Entry[T], errors: int, opened_at: float = 0.0) -> None:
        self.entry = entry
        self.errors = errors
        self.opened_at = opened_at

    def __repr__(self) -> str:
        return f"<Read {self.id} {self.item!r} errors={self.errors}>"

    @property
    def id(self) -> int:
        """The id of the item."""
        return self.entry.id

    @property
    def item(self) -> T:
        """The item itself, for this read alone."""
        try:
            return self._item
        except AttributeError:
            self._item: T = own(self.entry.item)
            return self._item

    @property
    def added_at(self) -> datetime:
        """When it was put."""
        return self.entry.added_at
