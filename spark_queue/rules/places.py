"""Places of items at an instant, by the instants that they wait for."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeVar

from spark_queue.config import QueueConfig

Terminal = Literal["acked", "dead", "expired", "cancelled"]
State = Literal["ready", "claimed", "acked", "dead", "expired", "cancelled"]

#: Where an item is: waiting for its time, due, under a lease, under a lease that ran out, done. One
#: that is kept had a lease that ran out, and may not be taken over yet: it has its slots still.
Place = Literal["delayed", "due", "held", "lost", "kept", "done"]

# A deadline ends the waiting only: an item under a live lease may finish.
# rule: deadline of an item
WAITS = frozenset({"delayed", "due", "lost", "kept"})

#: The item waits for its time alone.
TIMED: frozenset[Place | None] = frozenset({"delayed", "kept"})

#: Its lease ran out.
LAPSED: frozenset[Place | None] = frozenset({"lost", "kept"})


_Instant = TypeVar("_Instant", float, datetime)


# rule: place at an instant
def freed_at(lease_expires_at: _Instant, config: QueueConfig) -> _Instant:
    """Return the instant from which on a claim may take over the items of a lease."""
    if isinstance(lease_expires_at, datetime):
        return lease_expires_at + config.lease_grace
    # Of two numbers of microseconds the sum is one, too.
    return round(lease_expires_at + config.lease_grace.total_seconds(), 6)


# rule: place at an instant
def lapsed_by(now: datetime, config: QueueConfig) -> datetime:
    """Return the instant by which a lease has ended that a claim may take over now."""
    return now - config.lease_grace


# rule: busy item of a key
def is_busy(state: str, *tries: int) -> bool:
    """Tell whether an item has begun: it is claimed, or failed, or lost a lease, and goes on."""
    return state == "claimed" or any(tries)


#: Where an item is that has a key.
Holding = Literal["waits", "busy", "over"]
