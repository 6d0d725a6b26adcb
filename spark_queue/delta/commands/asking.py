"""Ack by evidence where there is no Spark: what the output of a claim has is asked of its files.

As :mod:`~spark_queue.delta.commands.evidence` writes and asks it: so processes with Spark and
without take over from each other.
"""

from __future__ import annotations

import os
from pathlib import Path

from spark_queue.delta import alone
from spark_queue.delta.commands import settle
from spark_queue.delta.commands.settle import ByARescuer, Every, SettledStep, Some
from spark_queue.delta.replica.settling import GONE, LOSE, Said
from spark_queue.delta.replica.state import RememberedClaim
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables import addresses
from spark_queue.delta.tables.addresses import TableAddress
from spark_queue.delta.tables.claim_record import find_record, outcomes_of
from spark_queue.delta.tables.facts import logger
from spark_queue.delta.tables.outputs import ResultTable
from spark_queue.delta.tables.wishes import promises_disk
from spark_queue.delta.verdicts import Gone
from spark_queue.errors import SparkNeededError
from spark_queue.wording import shorten


def output(store: Store, path: str, what: str = "output", source: str = "returns") -> ResultTable:
    """Return the table at a path, which is there or can be made.

    What it is to the caller, and where its rows come from, is said in errors.

    Raises
    ------
    SparkNeededError
        When it is not on this machine's disk, or asks more of its writers than is known here.
    """
    if "/" not in path:
        why = (
            f"a name without a / is a table of a catalog; a path is written {shorten(f'./{path}')}"
        )
        raise SparkNeededError(f"to write to the {what} {shorten(path)}", why)
    directory = _directory(store, path)
    if directory is None:
        why = "it is not plainly a path of this machine's disk"
        raise SparkNeededError(f"to write to the {what} {shorten(path)}", why)
    is_synced = promises_disk(store.session)
    found = ResultTable(directory, is_synced=is_synced, what=what, source=source)
    if found.exists():
        found.require_plain()
    return found


def lasting_name(table: ResultTable) -> str:
    """Return what a table is called in any session."""
    return addresses.location_of(table.directory)


def settle_by_output(store: Store, lease: int, claim_id: str, gone: Gone) -> SettledStep | None:
    """Settle a claim of a holder that is gone; ``None`` where that is left to somebody else.

    That is somebody with Spark, where the output is not known here; or a caller that comes when it
    can be read again.
    """
    try:
        return _settle_rest(store, lease, claim_id, (LOSE, GONE), gone)
    except SparkNeededError as exc:
        logger.info("%s: claim %s waits for Spark: %s", store.name, claim_id, exc)
    except Exception:  # noqa: BLE001 - whatever it is, nobody knows what was done
        logger.exception("%s: claim %s waits until its output can be asked", store.name, claim_id)
    return None


def abandon(store: Store, lease: int, claim_id: str) -> SettledStep:
    """Settle a claim that its own holder gives up: what is in the output is done, the rest back."""
    released = ByARescuer(Every("release"))
    return _settle_rest(store, lease, claim_id, ("release", None), released)


def _settle_rest(
    store: Store, lease: int, claim_id: str, otherwise: Said, without: Gone | ByARescuer
) -> SettledStep:
    """Settle what is left of a claim by its output; by a verdict where it has none."""
    grant = alone.grant_of(store, lease)
    table = None if grant is None else _evidence(store, grant)
    if grant is None or table is None:
        return settle.settle(store, lease, without, action="recover")
    done = table.shut_out(claim_id)
    record = find_record(table.directory, claim_id) if done else None
    said = outcomes_of(grant.left, done, record, otherwise)
    return settle.settle(store, lease, ByARescuer(Some(said)), action="recover")


def _evidence(store: Store, grant: RememberedClaim) -> ResultTable | None:
    """Return the output of a claim, if it has one."""
    if grant.output is None:
        return None
    directory = _directory(store, grant.output)
    if directory is None:
        raise SparkNeededError(f"to ask {grant.output!r}", "it is not on this machine's disk")
    found = ResultTable(directory, is_synced=promises_disk(store.session))
    # Where the table is gone, so is the evidence, and all that it said was done.
    return found if found.exists() else None


def _directory(store: Store, path: str) -> Path | None:
    """Return where the table of a path is; ``None`` for a name, or a place elsewhere."""
    place = path if "/" not in path or ":" in path else os.path.abspath(path)  # noqa: PTH100
    return addresses.directory_of(store.session, TableAddress.of(place))
