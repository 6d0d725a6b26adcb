"""A queue as it was: both logs, cut at a step or an instant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.errors import InvalidArgumentError

#: A step of the status log, an instant, or (``None``) now.
AsOf = int | datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The rows of both logs up to some step of each."""

    queue: DataFrame
    status: DataFrame
    head: StatusHead
    """The last step of the status log in the cut."""
    at: datetime | None = None
    """When that step was made, or the instant that was asked for; ``None`` for now."""

    @property
    def status_step(self) -> int:
        """The number of the last step of the status log in the cut."""
        return self.head.step


def cut_at(store: Store, as_of: AsOf) -> Cut:
    """Cut both logs: the status log first, then the item log at the same instant.

    Raises
    ------
    InvalidArgumentError
        When the step or the instant lies before the queue was made.
    """
    if as_of is None:
        return Cut(queue=store.items(), status=store.status.read(), head=store.status_head())
    head = store.status.head_at(as_of) if isinstance(as_of, int) else store.status.head_by(as_of)
    if head is None:
        raise InvalidArgumentError(f"as_of is {as_of}: the queue has no step there")
    at = datetime.fromisoformat(head.at) if isinstance(as_of, int) else as_of
    last = store.queue.head_by(at)
    queue_step = last.step if last is not None else 0
    return Cut(
        queue=store.items().where(F.col("_step") <= queue_step),
        status=store.status.read().where(F.col("_step") <= head.step),
        head=head,
        at=at,
    )
