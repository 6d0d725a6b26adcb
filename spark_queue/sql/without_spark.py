"""Steps of a queue that was opened without Spark: what this process cannot decide is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from spark_queue.errors import SparkNeededError
from spark_queue.reader_config import ReaderConfig
from spark_queue.sql import database
from spark_queue.sql.arrow_look import ArrowLook
from spark_queue.sql.decisions import GivenRows, LogPosition
from spark_queue.state import replica_choice, replica_rows
from spark_queue.state.open_items import FOLLOWED, RememberedClaim
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store

_TOO_MUCH = "the queue has more open items, or a longer history, than a process keeps in memory"


@dataclass(frozen=True, slots=True)
class AlonePlanner:
    """The part of a :class:`Planner` that is asked for without Spark."""

    store: Store
    look: ClassVar = ArrowLook

    def frame(self, given: GivenRows) -> NoReturn:
        """Refuse: only Spark checks these rows."""
        del given
        raise SparkNeededError(f"to enqueue into {self.store.name!r}", _TOO_MUCH)

    def engines(self, what: str) -> NoReturn:
        """Refuse: only Spark reads so many rows."""
        why = f"it would read more than {database.most_rows():,} rows of the logs, which is what"
        raise SparkNeededError(
            what, f"{why} {database.MEMORY}={database.memory_setting()} has room for"
        )

    def leaving(
        self, at: Snapshot, reader_config: ReaderConfig, target: str, since: LogPosition
    ) -> NoReturn:
        """Refuse: only Spark compares the keys of both queues."""
        del at, reader_config, since
        raise SparkNeededError(f"to send items to {target!r}", "their keys are compared by tables")


def grant_of(store: Store, lease: int) -> RememberedClaim | None:
    """Return a claim as this process remembers it, or else as the status log has it.

    Raises
    ------
    SparkNeededError
        When only Spark reads the log.
    """
    with store.cache().lock:
        replica = replica_choice.at_hand(Snapshot(store))
        known = None if replica is None else replica.grants.get(lease)
    if known is not None:
        return known
    log = store.native("status")
    if log is None:
        raise SparkNeededError(f"to look at a claim of {store.name!r}", _TOO_MUCH)
    return replica_rows.grant_of(log.rows_of(log.files(), FOLLOWED), lease)


def of(store: Store) -> AlonePlanner:
    """Return who decides for a store that has no session of Spark."""
    return AlonePlanner(store)
