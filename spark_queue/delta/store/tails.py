"""The rows of a status log that a process keeps at hand, so that a fold need not read the table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from spark_queue.delta.store.memory import MAX_TAIL
from spark_queue.delta.tables import recent
from spark_queue.delta.tables.heads import StatusHead


@dataclass(frozen=True, slots=True)
class Tail:
    """The rows of the status log since its checkpoint, as of a step.

    A process that makes step after step has their rows at hand, so that the next fold needs no
    read of the table. What others have made meanwhile ends it.
    """

    head: StatusHead
    rows: DataFrame
    count: int
    is_staged: bool = True

    def followed_by(self, head: StatusHead, rows: DataFrame | None) -> Tail | None:
        """Return the tail after a step; ``None`` where it is better read from the table."""
        if head.step != self.head.step + 1 or head.checkpoint != self.head.checkpoint:
            return None
        if rows is None:
            return replace(self, head=head)
        count = self.count + head.log_rows - self.head.log_rows
        if count > MAX_TAIL:
            return None
        union = self.rows.unionByName(recent.of_step(rows, head.step))
        return Tail(head, union, count, is_staged=False)

    def staged(self) -> Tail:
        """Return the tail with its rows computed.

        What Spark estimates of a frame is the product of what it estimates of the frames that were
        joined for it, and a computed frame keeps its estimate: from step to step its digits would
        double. A limit, far beyond the rows there are, is the end of that.
        """
        if self.is_staged:
            return self
        bounded = self.rows.coalesce(1).limit(2 * self.count + MAX_TAIL)
        return replace(self, rows=bounded.localCheckpoint(), is_staged=True)
