"""A step of each log at which a queue is read: now, or in the past."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from spark_queue.errors import InvalidArgumentError
from spark_queue.log.heads import QueueHead, StatusHead
from spark_queue.state.store import Store

#: A step of the status log, an instant, or (``None``) now.
AsOf = int | datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The last steps of both logs that are looked at."""

    head: StatusHead
    """The head of the status log's."""
    queue_head: QueueHead | None = None
    """The item log's; ``None`` for now, where no step is cut off of either."""
    at: datetime | None = None
    """When the status log's was made, or the instant that was asked for; ``None`` for now."""

    @property
    def queue_step(self) -> int | None:
        """The last step of the item log; ``None`` for now."""
        return None if self.queue_head is None else self.queue_head.step


def ends_at(store: Store, as_of: AsOf) -> Ends:
    """Find the last steps: the status log's first, then the item log's at that instant.

    Raises
    ------
    InvalidArgumentError
        When the step or the instant lies before the queue was made.
    """
    if as_of is None:
        return Ends(head=store.status_head())
    head = store.status.head_at(as_of) if isinstance(as_of, int) else store.status.head_by(as_of)
    if head is None:
        raise InvalidArgumentError(f"as_of is {as_of}: the queue has no step there")
    at = datetime.fromisoformat(head.at) if isinstance(as_of, int) else as_of
    return Ends(head=head, queue_head=store.queue.head_by(at) or QueueHead(), at=at)
