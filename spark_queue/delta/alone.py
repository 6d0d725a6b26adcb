"""Steps of a queue that was opened without Spark: what this process cannot decide is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timezone
from typing import ClassVar, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow.rows import first_of_each, last_of_each
from spark_queue.delta.replica import reading
from spark_queue.delta.replica.request import GrantedClaim
from spark_queue.delta.replica.state import FOLLOWED, RememberedClaim
from spark_queue.delta.sql import closed
from spark_queue.delta.sql.arrow_look import ArrowLook
from spark_queue.delta.store import replicas
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CLAIMED, ITEM, READY
from spark_queue.delta.tables.settings import Settings
from spark_queue.errors import SparkNeededError
from spark_queue.reader_config import ReaderConfig
from spark_queue.tracing import Traces

_TOO_MUCH = "the queue has more open items, or a longer history, than a process keeps in memory"


@dataclass(frozen=True, slots=True)
class AlonePlanner:
    """The part of a :class:`~spark_queue.delta.planner.Planner` that is asked for without Spark."""

    store: Store
    look: ClassVar = ArrowLook

    def frame(
        self,
        df: object,
        order_by: object,
        settings: Settings,
        extra: Sequence[str],
        *,
        is_decidable: bool,
        trace: Traces = None,
    ) -> NoReturn:
        """See :class:`Planner`."""
        del df, order_by, settings, extra, is_decidable, trace
        raise SparkNeededError(f"to enqueue into {self.store.name!r}", _TOO_MUCH)

    def engines(self, what: str) -> NoReturn:
        """See :class:`Planner`."""
        why = f"it would read more than {closed.most_rows():,} rows of the logs, which is what"
        raise SparkNeededError(
            what, f"{why} {closed.MEMORY}={closed.memory_setting()} has room for"
        )

    def find_claim(self, claim_id: str) -> GrantedClaim | None:
        """See :class:`Planner`: the status log is read for it."""
        log = self.store.native("status")
        if log is None:
            raise SparkNeededError(f"to claim from {self.store.name!r} again", _TOO_MUCH)
        rows = log.rows_of(log.files(), (*_OF_CLAIM, *_TIMES))
        rows = rows.filter(pc.equal(rows["_kind"], ITEM))
        mine = pc.and_(pc.equal(rows["_claim_id"], claim_id), pc.equal(rows["_state"], CLAIMED))
        found = rows.filter(pc.and_kleene(mine, pc.equal(rows["_lease"], rows["_step"])))
        found = found.filter(pc.equal(found["_step"], pc.max(found["_step"])))
        if not found.num_rows or _was_given_back(found, rows):
            return None
        over = _over(found, rows)
        at, until = (pc.max(found[name]).as_py().astimezone(timezone.utc) for name in _TIMES)
        return GrantedClaim(
            step=found["_step"][0].as_py(),
            count=found.num_rows - len(over),
            over=over,
            claim_id=claim_id,
            claimed_at=at,
            lease_expires_at=until,
        )

    def leaving(self, at: Snapshot, limits: ReaderConfig, target: str, since: int) -> NoReturn:
        """See :class:`Planner`."""
        del at, limits, since
        raise SparkNeededError(f"to send items to {target!r}", "their keys are compared by tables")


#: What is read of a status log to find a claim, and what has become of its items.
_OF_CLAIM = ("_kind", "_step", "_seq", "_state", "_lease", "_claim_id", "_error")

_TIMES = ("_at", "_lease_expires_at")


def _over(found: pa.Table, rows: pa.Table) -> tuple[int, ...]:
    """Return the items of a claim that it does not hold any more."""
    lease = found["_step"][0]
    since = pc.greater_equal(rows["_step"], lease)
    moved = rows.filter(pc.and_(since, pc.is_in(rows["_seq"], found["_seq"].combine_chunks())))
    newest = last_of_each(moved, "_step")
    is_held = pc.and_(pc.equal(newest["_state"], CLAIMED), pc.equal(newest["_lease"], lease))
    gone = newest.filter(pc.invert(pc.fill_null(is_held, False)))
    return tuple(gone["_seq"].to_pylist())


def _was_given_back(found: pa.Table, rows: pa.Table) -> bool:
    """Tell of a claim whether the next row of each item is one without a worker id."""
    later = pc.greater(rows["_step"], found["_step"][0])
    moved = rows.filter(pc.and_(later, pc.is_in(rows["_seq"], found["_seq"].combine_chunks())))
    is_renewed = pc.and_(
        pc.equal(moved["_state"], CLAIMED), pc.equal(moved["_lease"], found["_step"][0])
    )
    after = first_of_each(moved.filter(pc.invert(pc.fill_null(is_renewed, False))), "_step")
    nobodys = pc.and_(pc.is_null(after["_lease"]), pc.is_null(after["_error"]))
    back = after.filter(pc.and_(nobodys, pc.equal(after["_state"], READY)))
    return bool(back.num_rows == found.num_rows)


def grant_of(store: Store, lease: int) -> RememberedClaim | None:
    """Return a claim as this process remembers it, or else as the status log has it.

    Raises
    ------
    SparkNeededError
        When only Spark reads the log.
    """
    with store.cache().lock:
        replica = replicas.at_hand(Snapshot(store))
        known = None if replica is None else replica.grants.get(lease)
    if known is not None:
        return known
    log = store.native("status")
    if log is None:
        raise SparkNeededError(f"to look at a claim of {store.name!r}", _TOO_MUCH)
    return reading.grant_of(log.rows_of(log.files(), FOLLOWED), lease)


def of(store: Store) -> AlonePlanner:
    """Return who decides for a store that has no session of Spark."""
    return AlonePlanner(store)
