"""Ack by evidence without Spark, from a claim's output files.

The files are those of :mod:`~spark_queue.commands.evidence`, so that processes with Spark and
without take over from each other.
"""

from __future__ import annotations

import os
from contextlib import suppress
from urllib.parse import urlsplit

import pyarrow as pa

from spark_queue.commands import settle
from spark_queue.commands.settle import SettledStep
from spark_queue.errors import SparkNeededError, SparkQueueError
from spark_queue.log import addresses
from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta.claim_record import outcomes_of
from spark_queue.log.disk.disk_storage import DiskStorage
from spark_queue.log.output.outputs import ResultTable
from spark_queue.log.session_options import promises_disk
from spark_queue.saying import Said
from spark_queue.sql.arrow_look import ArrowLook
from spark_queue.sql.decisions import TOO_MUCH
from spark_queue.sql.log_rows import TooManyRowsError
from spark_queue.sql.look import newest_rows
from spark_queue.state import replica_choice, replica_rows
from spark_queue.state.open_items import FOLLOWED, RememberedClaim, Row
from spark_queue.state.settle_decision import GONE, LOSE, ByARescuer, Every, Gone, Some
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.wording import shorten

#: What tells a claim, and what is said of its items together.
CLAIM = ("_lease", "_claim_id", "_worker_id")
OF_CLAIM = (("_seq", "min"), ("_lease_expires_at", "min"), ("_losses", "max"))

#: Columns read of items in flight.
HELD = (*CLAIM, *(name for name, _ in OF_CLAIM))


def read_held(at: Snapshot) -> list[Row]:
    """Return the items in flight from the files, where memory does not have them.

    Nothing is said for more rows than are read: the next step names what it needs for them.
    """
    held = _read_held(at)
    return [] if held is None else held.to_pylist()


def read_claims(at: Snapshot) -> list[Row]:
    """Return their claims: the first item, when each ends, and how often it lost one."""
    held = _read_held(at)
    if held is None:
        return []
    found = held.group_by([*CLAIM]).aggregate([*OF_CLAIM])
    rows: list[Row] = found.rename_columns({f"{n}_{how}": n for n, how in OF_CLAIM}).to_pylist()
    return rows


def _read_held(at: Snapshot) -> pa.Table | None:
    with suppress(TooManyRowsError):
        return newest_rows(ArrowLook, at.store, at.status, "leased_items", HELD)
    return None


def output(store: Store, path: str, what: str = "output", source: str = "returns") -> ResultTable:
    """Return the table at a path, which exists or can be created.

    Its use to the caller, and the source of its rows, for errors.

    Raises
    ------
    SparkNeededError
        When it is neither on this machine's disk nor beside a queue on an object store, or asks
        more of its writers than is known here.
    InvalidArgumentError
        When it is in a bucket that the queue's storage does not reach.
    """
    if "/" not in path:
        why = (
            f"a name without a / is a table of a catalog; a path is written {shorten(f'./{path}')}"
        )
        raise SparkNeededError(f"to write to the {what} {shorten(path)}", why)
    found = _table(store, path, what, source)
    if found is None:
        why = "it is neither plainly a path of this machine's disk nor beside a queue on a store"
        raise SparkNeededError(f"to write to the {what} {shorten(path)}", why)
    if found.exists():
        found.require_plain()
    return found


def is_asked_here(store: Store, path: str | None) -> bool:
    """Whether an output is on an object store, with commits not made by Spark."""
    if path is None or not _is_beside(store, path):
        return False
    try:
        found = _table(store, path)
        return found is not None and found.is_conditional()
    except SparkQueueError:
        # Spark says what it finds; to such a table it does not write.
        return False


def settle_by_output(store: Store, lease: int, claim_id: str, gone: Gone) -> SettledStep:
    """Settle a dead worker's claim from its output table."""
    return _settle_rest(store, lease, claim_id, Said(LOSE, GONE), gone)


def ask(store: Store, lease: int, claim_id: str) -> None:
    """Check that a claim's output can be read, changing nothing."""
    grant = grant_of(store, lease)
    table = None if grant is None else _evidence(store, grant)
    if table is not None:
        table.peek(claim_id)


def abandon(store: Store, lease: int, claim_id: str) -> SettledStep:
    """Settle a claim that its holder gives up: items in the output are done, others go back."""
    released = ByARescuer(Every("release"))
    return _settle_rest(store, lease, claim_id, Said("release"), released)


def _settle_rest(
    store: Store, lease: int, claim_id: str, otherwise: Said, without: Gone | ByARescuer
) -> SettledStep:
    """Settle a claim's open items by its output, or by a verdict without one."""
    grant = grant_of(store, lease)
    table = None if grant is None else _evidence(store, grant)
    if grant is None or table is None:
        return settle.settle(store, lease, without, action="recover")
    done = table.shut_out(claim_id)
    record = table.record(claim_id) if done else None
    said = outcomes_of(grant.left, done, record, otherwise)
    return settle.settle(store, lease, ByARescuer(Some(said)), action="recover")


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
        raise SparkNeededError(f"to look at a claim of {store.name!r}", TOO_MUCH)
    return replica_rows.grant_of(log.rows_of(log.files(), FOLLOWED), lease)


def _evidence(store: Store, grant: RememberedClaim) -> ResultTable | None:
    """Return the output of a claim, if it has one."""
    if grant.output is None:
        return None
    found = _table(store, grant.output)
    if found is None:
        raise SparkNeededError(f"to ask {grant.output!r}", "it is not reached from here")
    # Where the table is gone, so is the evidence, and all that it said was done.
    return found if found.exists() else None


def _table(
    store: Store, path: str, what: str = "output", source: str = "returns"
) -> ResultTable | None:
    """Return the table at a path; ``None`` for a name, or where only Spark reads."""
    place = path if "/" not in path or ":" in path else os.path.abspath(path)  # noqa: PTH100
    tables = store.handle.place.tables
    if tables is not None and _is_beside(store, place):
        return tables.results(place, what, source)
    directory = addresses.directory_of(store.session, TableAddress.of(place))
    if directory is None:
        return None
    is_synced = promises_disk(store.session)
    return ResultTable(DiskStorage(directory), is_synced=is_synced, what=what, source=source)


def _is_beside(store: Store, path: str) -> bool:
    """Whether a place is on an object store, or has the queue's URL scheme."""
    schemes = [urlsplit(place).scheme for place in (path, store.handle.address.name)]
    return addresses.is_on_object_store(path) or ("://" in path and schemes[0] == schemes[1])
