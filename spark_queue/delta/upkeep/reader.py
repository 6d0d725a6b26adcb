"""Order of the upkeep of one reader, and its dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from spark_queue.delta.commands import admin, checkpoint, forwarding, readers, recovery
from spark_queue.delta.commands.foreseeing import GONE, together
from spark_queue.delta.planner import planner_of
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CLAIMED, DEAD, EXPIRED, TERMINAL
from spark_queue.delta.upkeep import generations
from spark_queue.delta.upkeep.generations import GenerationTables
from spark_queue.results import Affected


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


def foresee_upkeep(store: Store, retention: timedelta | None, tables: GenerationTables) -> Affected:
    """Return what would expire, die of its last lease, or be dropped.

    What an output has of a claim whose last lease ran out is asked when that is settled, and not
    here: some of the dead may be acked. Of a reader that has no log nothing is told.
    """
    ended = [part for reader in readers.with_logs(store) for part in _foresee(reader)]
    if retention is None:
        return together(ended)
    first = next(readers.with_logs(store), store)
    gone = generations.due(store, retention, tables)
    numbers = [gen.number for gen in gone]
    return together([*ended, *_affected_by(first, "_gen", numbers, TERMINAL, GONE)])


def _foresee(reader: Store) -> Iterator[Affected]:
    planner = planner_of(reader)
    yield planner.count_affected(planner.due(reader.clock.now()), EXPIRED)
    yield from _affected_by(reader, "_seq", recovery.lost_for_good(reader), (CLAIMED,), DEAD)


def _affected_by(
    reader: Store, column: str, numbers: Iterable[int], states: tuple[str, ...], becomes: str
) -> Iterator[Affected]:
    wanted = ", ".join(map(str, numbers))
    if wanted:
        found = admin.matching(reader, f"{column} IN ({wanted})", states)
        yield planner_of(reader).count_affected(found, becomes)
