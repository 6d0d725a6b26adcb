"""An item while the scheduler works on it: the one mutable thing that all rules share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from spark_queue.rules.fairness import share
from spark_queue.rules.rule_model import Item, NewItem, State

if TYPE_CHECKING:
    from spark_queue.rules.fairness import Account

#: Where an item is: waiting for its time, due, under a lease, under a lease that ran out, done.
Place = Literal["delayed", "due", "held", "lost", "done"]


@dataclass(slots=True, kw_only=True, eq=False)
class Record:
    """An item as it stands. Its place follows the scheduler's clock, its state only its steps."""

    seq: int
    new: NewItem
    priority: int
    account: Account
    raw_tag: float
    enqueued_at: float
    available_at: float | None
    origin: int | None = None
    state: State = "ready"
    place: Place | None = None
    attempts: int = 0
    losses: int = 0
    lease: int | None = None
    lease_expires_at: float | None = None
    worker_id: str = ""
    finished_at: float | None = None
    error: str | None = None

    @property
    def tag(self) -> float:
        """The item's tag, on the scale of its key's present weight; at the end, its last one."""
        if self.place == "done":
            return self.raw_tag
        return self.account.tag(self.raw_tag)

    @property
    def increment(self) -> float:
        """How far the item moves its key: cost / weight, rounded so that sums of it are exact."""
        return share(self.new.cost / self.account.weight)

    # rule again: overdue item
    @property
    def passed(self) -> bool:
        """Whether the pointer of its priority has passed the item."""
        level = self.account.level
        return (self.tag, self.seq) <= (level.turn, level.seq)

    def is_due(self, now: float) -> bool:
        """Whether a ready item's time has come."""
        return self.available_at is None or self.available_at <= now

    def has_expired(self, now: float) -> bool:
        """Whether the item's deadline has passed."""
        return self.new.expires_at is not None and self.new.expires_at <= now

    def ran_out(self, now: float) -> bool:
        """Whether the item is under a lease that has run out."""
        return self.lease_expires_at is not None and self.lease_expires_at <= now

    def view(self) -> Item:
        """Return the item as frozen data."""
        return Item(
            seq=self.seq,
            new=self.new,
            state=self.state,
            priority=self.priority,
            tag=self.tag,
            enqueued_at=self.enqueued_at,
            available_at=self.available_at,
            attempts=self.attempts,
            losses=self.losses,
            lease=self.lease,
            lease_expires_at=self.lease_expires_at,
            worker_id=self.worker_id,
            finished_at=self.finished_at,
            error=self.error,
            origin=self.origin,
        )
