"""A queue as it was: both logs, cut at a step or an instant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.views.ends import AsOf, ends_at


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
    """Cut both logs; the errors are those of :func:`spark_queue.delta.views.ends.ends_at`."""
    ends = ends_at(store, as_of)
    items, log = store.items(), store.status.read()
    if ends.queue_step is not None:
        items = items.where(F.col("_step") <= ends.queue_step)
        log = log.where(F.col("_step") <= ends.head.step)
    return Cut(queue=items, status=log, head=ends.head, at=ends.at)
