"""Handler in a span that goes on with the traces of its items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spark_queue import tracing
from spark_queue.log.schema import TRACE
from spark_queue.processing.handler_types import AnyHandler


@dataclass(frozen=True, slots=True)
class Continuing:
    """Calls a handler; where what it gets belongs to traces, in a span that goes on with them.

    An item's span is a child of its enqueuer's span; the span of a table with items of
    several traces has links to them.
    """

    handler: AnyHandler
    queue: str
    """The queue's name or path."""

    def __call__(self, given: Any) -> Any:
        """Return what the handler returns; see :mod:`spark_queue.processing.calling`."""
        if isinstance(given, dict):
            trace = given.pop(TRACE, None)
            return self._call(given, [trace], given["_seq"]) if trace else self.handler(given)
        if TRACE not in given.schema.names:
            return self.handler(given)
        traces = given.column(TRACE).drop_null().to_pylist()
        return self._call(given.drop_columns([TRACE]), traces, None)

    def _call(self, given: Any, traces: list[str], seq: int | None) -> Any:
        about: dict[str, Any] = {
            "messaging.system": "spark_queue",
            "messaging.operation.type": "process",
            "messaging.destination.name": self.queue,
        }
        if seq is None:
            about["messaging.batch.message_count"] = int(given.num_rows)
        else:
            about |= {"messaging.message.id": str(seq), "spark_queue.lease": given["_lease"]}
        with tracing.continue_trace(f"process {self.queue}", traces, about):
            return self.handler(given)
