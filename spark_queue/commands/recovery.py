"""Recovery of the claims of dead workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from importlib import import_module
from types import ModuleType

from spark_queue.commands import asking, settle
from spark_queue.commands.settle import SettledStep
from spark_queue.errors import SparkNeededError
from spark_queue.log.disk import liveness
from spark_queue.log.schema import DEAD
from spark_queue.log.session_options import PlainSession
from spark_queue.log.step_events import logger
from spark_queue.rules.places import lapsed_by
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import replica_choice
from spark_queue.state.open_items import RememberedClaim, Row
from spark_queue.state.replica import Replica
from spark_queue.state.settle_decision import Gone
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.wording import line_of

#: Before every lease that there is.
_NEVER = datetime.fromtimestamp(0, timezone.utc)


def recover(store: Store) -> list[SettledStep]:
    """Settle the claims of processes that have ended, where a disk of this machine tells.

    What such a process wrote to its output counts as done; the rest comes back, charged with a
    loss. A lease whose time is over is another matter: a claim takes over the items that it gives
    out, and the others stay their holder's.

    Parameters
    ----------
    store : Store
        The queue, as the reader sees it whose claims they are.

    Returns
    -------
    list of SettledStep
        One for each claim that was settled.
    """
    return _recover(Snapshot(store))


def recover_ended(at: Snapshot) -> bool:
    """Settle the claims of ended processes, among the known open items.

    A claim does so first, and tells whether there were any.
    """
    if not at.is_local or at.status.claimed == 0:
        return False
    if _known_replica(at) is None and not at.position.too_large.is_put_off:
        return False
    return bool(_recover(at))


def _recover(at: Snapshot) -> list[SettledStep]:
    store, held = at.store, _read_claims(at)
    gone = Gone(_NEVER, find_ended(store, held))
    if not gone.ended:
        return []
    claims = sorted({(row["_lease"], row["_claim_id"]) for row in held if gone.has(row)})
    settled = [_settle(store, lease, claim_id, gone) for lease, claim_id in claims]
    _tidy(store, gone)
    return [done for done in settled if done is not None]


def settle_lapsed(store: Store, claims: Mapping[int, str]) -> None:
    """Settle expired claims, given by their leases, by their outputs.

    Asking there shuts the holder out. Where an output cannot be asked, a claim stays its holder's.
    """
    config = store.settings(store.status_head()).config
    gone = Gone(lapsed_by(store.clock.now(), config), frozenset())
    for lease, claim_id in sorted(claims.items()):
        _settle(store, lease, claim_id, gone)


def with_output(store: Store, replica: Replica | None, leases: frozenset[int]) -> dict[int, str]:
    """Return the claims, by their leases, that name an output.

    The log says so of those that were granted before what a replica has read.
    """
    grants = {} if replica is None else replica.grants
    known = {lease: grants[lease] for lease in leases & grants.keys()}
    found = {lease: grant.claim_id for lease, grant in known.items() if grant.output is not None}
    unknown = leases - known.keys()
    # No engine is loaded for nothing.
    return found | planner_of(store).with_output(unknown) if unknown else found


def bury(store: Store) -> int:
    """Settle items that lost their last lease; return how many are dead now.

    An item that may be lost once more stays with its holder, who may be late and not gone; unless
    the claim has an output. Asking there shuts the holder out, so that all of the claim is settled.
    """
    at = Snapshot(store)
    gone = _lost_for_good(at)
    if gone is None:
        return 0
    claims = {(row["_lease"], row["_claim_id"]) for row in _read_claims(at) if gone.has(row)}
    settled = [_settle(store, lease, claim_id, gone) for lease, claim_id in sorted(claims)]
    return sum(done.counts.get(DEAD, 0) for done in settled if done is not None)


def lost_for_good(store: Store) -> list[int]:
    """Return the items that lost their last lease, as :func:`bury` finds them."""
    at = Snapshot(store)
    gone = _lost_for_good(at)
    if gone is None or at.status.claimed == 0:
        return []
    with at.cache.lock:
        known = _known_replica(at)
        rows = [] if known is None else known.items.in_flight()
    if known is None:
        if at.has_spark:
            return sorted(_by_spark().find_lost(store, gone))
        rows = asking.read_held(at)
    return sorted(row["_seq"] for row in rows if gone.has(row))


def _lost_for_good(at: Snapshot) -> Gone | None:
    config = at.settings.config
    if config.max_losses is None:
        return None
    now = lapsed_by(at.store.clock.now(), config)
    return Gone(now, frozenset(), losses=config.max_losses - 1)


def find_unasked(store: Store, before: datetime) -> list[tuple[Row, str]]:
    """Return the first item of each expired claim whose output cannot be read, and why."""
    at = Snapshot(store)
    late = [row for row in _read_claims(at) if row["_lease_expires_at"] <= before]
    # Items come in order, and one of each claim is named.
    held = {row["_lease"]: row for row in reversed(late)}
    known = _known_replica(at)
    claims = with_output(store, known, frozenset(held))
    found = [(held[lease], _why_unasked(store, known, lease, claims[lease])) for lease in claims]
    return [(row, why) for row, why in found if why]


def _why_unasked(store: Store, known: Replica | None, lease: int, claim_id: str) -> str:
    grant = None if known is None else known.grants.get(lease)
    try:
        _asker_of(store, grant).ask(store, lease, claim_id)
    except Exception as exc:  # noqa: BLE001 - any error is the answer
        return f"{type(exc).__name__}: {line_of(exc)}"
    return ""


def lose(store: Store, lease: int, claim_id: str) -> SettledStep | None:
    """Settle a claim as if its worker were dead."""
    return _settle(store, lease, claim_id, Gone(_NEVER, frozenset(), is_sure=True))


def abandon(store: Store, lease: int, claim_id: str) -> SettledStep:
    """Settle a claim that its holder gives up: items in the output are done, others go back."""
    done: SettledStep = _asker_of(store, None).abandon(store, lease, claim_id)
    return done


def _tidy(store: Store, gone: Gone) -> None:
    """Remove the lock files of ended workers, which say no more than their absence."""
    directory = store.handle.place.directory()
    if gone.ended and directory is not None:
        with suppress(OSError):
            liveness.sweep(directory)


def find_ended(store: Store, held: Iterable[Row]) -> frozenset[str]:
    """Return the workers whose process has ended, as far as this machine knows."""
    directory = store.handle.place.directory()
    if directory is None:
        return frozenset()
    workers = {row["_worker_id"] for row in held} - {None, ""}
    return frozenset(name for name in workers if liveness.has_ended(directory, name))


def _read_claims(at: Snapshot) -> list[Row]:
    """Return a row of each claim in flight, or of each of its items."""
    if at.status.claimed == 0:
        return []
    with at.cache.lock:
        if (known := _known_replica(at)) is not None:
            return known.items.in_flight()
    is_by_spark = at.has_spark and not at.are_files_read
    rows: list[Row] = _by_spark().read_claims(at.store) if is_by_spark else asking.read_claims(at)
    return rows


def _known_replica(at: Snapshot) -> Replica | None:
    with at.cache.lock:
        return replica_choice.at_hand(at)


def _settle(store: Store, lease: int, claim_id: str, gone: Gone) -> SettledStep | None:
    """Settle the items left of a claim. ``None``: its output cannot be read now, or here.

    A worker that named an output may have written there: the output is read first. Else the claim
    waits for a later call, or for a process with Spark.
    """
    with store.cache().lock:
        known = _known_replica(Snapshot(store))
        grant = None if known is None else known.grants.get(lease)
    if not with_output(store, known, frozenset({lease})):
        return settle.settle(store, lease, gone, action="recover")
    try:
        done: SettledStep = _asker_of(store, grant).settle_by_output(store, lease, claim_id, gone)
    except SparkNeededError as exc:
        logger.info("%s: claim %s waits for Spark: %s", store.name, claim_id, exc)
    except Exception:  # noqa: BLE001 - on any error it is unknown what was done
        logger.exception("%s: claim %s waits until its output can be asked", store.name, claim_id)
    else:
        return done
    return None


def _asker_of(store: Store, grant: RememberedClaim | None) -> ModuleType:
    """Return how the output of a claim is asked: by this process, or by Spark."""
    is_alone = isinstance(store.session, PlainSession)
    is_here = is_alone or (grant is not None and asking.is_asked_here(store, grant.output))
    return asking if is_here else _by_spark()


def _by_spark() -> ModuleType:
    return import_module("spark_queue.commands.evidence")
