"""A queue of an engine beside the same queue in memory, compared by what both show.

What is shown is compared whole, so that a new column is compared, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias

import pyarrow as pa

from spark_queue.errors import SparkQueueError
from spark_queue.results import Affected, QueueStats
from tests.conformance.engines import DeltaEngine
from tests.conformance.local import LocalEngine
from tests.conformance.memory import MemoryEngine

#: An engine whose queue has every verb.
Seen: TypeAlias = DeltaEngine | LocalEngine


@dataclass(frozen=True, slots=True)
class Pair:
    """An engine, and a queue in memory with the same story."""

    engine: Seen
    twin: MemoryEngine

    def play(self, story: Callable[[Seen], object]) -> None:
        """Do the same to both."""
        story(self.engine)
        story(self.twin)

    def require_same(self, look: Callable[..., Any], *given: object) -> Any:
        """Hold what both show against each other; return it."""
        found, expected = shown(self.engine, look, given), shown(self.twin, look, given)
        assert found == expected, f"{found} is not {expected}"
        return found


Twins = Callable[..., Pair]


def shown(engine: Seen, look: Callable[..., Any], given: tuple[object, ...]) -> Any:
    """Return what a look shows as plain data, whatever the queue is called; an error is shown."""
    try:
        return _plain(engine, look(engine, *given))
    except SparkQueueError as exc:
        return type(exc), str(exc).replace(engine.queue.name, "the queue")


def _plain(engine: Seen, value: Any) -> Any:  # noqa: PLR0911 - one for each kind
    if isinstance(value, QueueStats):
        counts = {one.name: getattr(value, one.name) for one in fields(value)}
        return {**counts, "per_key": _plain(engine, engine.table(counts["per_key"]))}
    if isinstance(value, Affected):
        return int(value), value.states, value.becomes, value.stays, value.sample
    if isinstance(value, pa.Table):
        return _plain(engine, value.schema), value.to_pylist()
    if isinstance(value, pa.Schema):
        return [(one.name, one.type) for one in value]
    if type(value) is tuple:
        return tuple(_plain(engine, one) for one in value)
    if hasattr(value, "__dataclass_fields__"):
        told = asdict(value)
        # Only a queue on a disk knows the processes that work on it.
        told.get("service", {}).pop("running", None)
        return type(value), repr(told).replace(engine.queue.name, "the queue")
    return value
