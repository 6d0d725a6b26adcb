"""Order of the upkeep of one reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_queue.delta.commands import admin, checkpoint, forwarding
from spark_queue.delta.store.store import Store


@dataclass(frozen=True, slots=True)
class KeptUp:
    """What the upkeep of a reader did."""

    expired: int
    dead: int
    checkpoint: int
    """The step of its newest checkpoint."""


def kept_up(
    reader: Store, bury: Callable[[Store], int], drop_before: Callable[[Store, int], None]
) -> KeptUp:
    """Log what is over for a reader, and write a checkpoint of its log.

    Parameters
    ----------
    reader : Store
        The queue as the reader sees it.
    bury : callable
        Ends the items that lost their last lease, and says how many.
    drop_before : callable
        Removes the rows of older checkpoints than that of a step.
    """
    _, expired = admin.expire(reader)
    dead = bury(reader)
    forwarding.forward(reader)
    head = reader.status_head()
    step = checkpoint.checkpoint(reader) if head.log_rows else head.checkpoint.step
    drop_before(reader, step)
    return KeptUp(expired, dead, step)
