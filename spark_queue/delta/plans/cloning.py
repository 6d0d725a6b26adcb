"""The tables of a queue once more, as shallow clones: Delta's own, of the same files."""

from __future__ import annotations

from collections.abc import Iterable

from spark_queue.delta.store.store import Store


def shallow(store: Store, made: Store, readers: Iterable[int]) -> None:
    """Make the tables of a clone; that by which it is a queue comes last."""
    source, target = store.handle.address, made.handle.address
    pairs = [(target.queue, source.queue)]
    pairs += [(target.status_of(number), source.status_of(number)) for number in readers]
    for new, old in pairs:
        store.spark.sql(f"CREATE TABLE {new.sql()} SHALLOW CLONE {old.sql()}")
