"""Claims whose holder is gone, or gives up, settled by what only Spark finds: tables, outputs."""

from __future__ import annotations

from datetime import datetime, timezone

from pyspark.sql import Column, DataFrame, functions as F

from spark_queue.delta.commands import settle
from spark_queue.delta.commands.evidence import Output
from spark_queue.delta.commands.settle import SettledStep
from spark_queue.delta.plans.spark_look import SparkLook
from spark_queue.delta.replica.settling import GONE, LOSE
from spark_queue.delta.replica.state import Row
from spark_queue.delta.sql.look import newest_rows
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.claim_record import ClaimRecord
from spark_queue.delta.tables.facts import logger
from spark_queue.delta.tables.schema import CLAIMED, DEAD, ITEM
from spark_queue.delta.verdicts import Gone

#: What is asked of items in flight.
_HELD = ("_seq", "_lease", "_claim_id", "_worker_id", "_losses", "_lease_expires_at")


def bury(store: Store) -> int:
    """Settle the items whose last lease has run out, and return how many are dead now.

    An item that may be lost once more stays with its holder, who may be late and not gone; unless
    the claim has an output. Asking there shuts the holder out, so that all of the claim is settled:
    what is in the output is done.
    """
    max_losses = store.settings(store.status_head()).config.max_losses
    if max_losses is None:
        return 0
    spent = Gone(store.clock.now(), frozenset(), losses=max_losses - 1)
    done = [_try_to_settle(store, claim, spent) for claim in _claims(store, spent)]
    return sum(settled.counts.get(DEAD, 0) for settled in done if settled is not None)


def abandon(store: Store, lease: int, claim_id: str) -> SettledStep:
    """Settle a claim that its own holder gives up: what is in the output is done, the rest back."""
    any_holder = Gone(store.clock.now(), frozenset(), is_sure=True)
    return _settle(store, (lease, claim_id), "release", any_holder)


def settle_by_output(store: Store, lease: int, claim_id: str, gone: Gone) -> SettledStep | None:
    """Settle a claim of a holder that is gone, by what its output has, if it has one.

    ``None`` where that cannot be asked: the claim waits for a caller that can.
    """
    return _try_to_settle(store, (lease, claim_id), gone)


def read_held(store: Store) -> list[Row]:
    """Return whose claims are in flight, until when, and how often an item of them was lost."""
    facts = ("_lease", "_claim_id", "_worker_id")
    until = F.min("_lease_expires_at").alias("_lease_expires_at")
    losses = F.max("_losses").alias("_losses")
    rows = _read_claimed(store).groupBy(*facts).agg(until, losses).collect()
    return [{**row.asDict(), "_lease_expires_at": _utc(row["_lease_expires_at"])} for row in rows]


def _claims(store: Store, gone: Gone) -> list[tuple[int, str]]:
    """Return lease and id of the claims that have such items in flight."""
    if store.status_head().claimed == 0:
        return []
    rows = (
        _read_claimed(store).where(_is_of(gone)).select("_lease", "_claim_id").distinct().collect()
    )
    return sorted((row[0], row[1]) for row in rows)


def _read_claimed(store: Store) -> DataFrame:
    with store.writing("status"):
        return newest_rows(SparkLook, store, store.status_head(), "in_flight", _HELD)


def _is_of(gone: Gone) -> Column:
    """Tell whether the holder of an item is gone, as :meth:`Gone.has` does."""
    ended = F.coalesce(F.col("_worker_id").isin(*gone.ended), F.lit(False))
    is_gone = F.lit(gone.is_sure) | (F.col("_lease_expires_at") <= gone.now) | ended
    return is_gone & (F.col("_losses") >= gone.losses)


def _utc(local: datetime) -> datetime:
    """Read a collected timestamp, which is naive and in this process's zone."""
    return local.astimezone(timezone.utc)


def _try_to_settle(store: Store, claim: tuple[int, str], gone: Gone) -> SettledStep | None:
    """Settle as lost what is left of a claim; one that cannot be asked holds up nobody else."""
    try:
        return _settle(store, claim, LOSE, gone)
    except Exception:  # noqa: BLE001 - whatever it is, nobody knows what was done
        logger.exception("%s: claim %s waits until its output can be asked", store.name, claim[1])
        return None


def _settle(store: Store, claim: tuple[int, str], otherwise: str, gone: Gone) -> SettledStep:
    """Settle what is left of a claim: by what its output has, or those items that are meant.

    Whether they are meant is asked again of their newest rows: a holder that renewed meanwhile
    keeps them.
    """
    lease, claim_id = claim
    output = _output(store, lease)
    done = None if output is None else output.shut_out(claim_id)
    record = None if output is None or done is None else output.find_record(done, claim_id)
    mine = _read_claimed(store).where(F.col("_lease") == lease)
    meant = gone if output is None else None
    outcomes = _outcomes(
        mine if meant is None else mine.where(_is_of(meant)), done, record, otherwise
    )
    verdict = settle.ByARescuer(settle.Each(outcomes), meant)
    return settle.settle(store, lease, verdict, action="recover")


def _output(store: Store, lease: int) -> Output | None:
    """Return the output of a claim, as its own step names it."""
    granted = (F.col("_kind") == ITEM) & (F.col("_step") == lease) & (F.col("_state") == CLAIMED)
    row = store.status.read().where(granted).select("_body").head()
    if row is None or row[0] is None:
        return None
    output = Output(store.spark, row[0])
    # Where the table is gone, so is the evidence, and all that it said was done.
    return output if output.exists() else None


def _outcomes(
    mine: DataFrame, done: DataFrame | None, record: ClaimRecord | None, otherwise: str
) -> DataFrame:
    """Return outcomes of items as :func:`~spark_queue.delta.tables.claim_record.outcomes_of`."""
    outcome: Column = F.lit(otherwise)
    rows = mine.select("_seq")
    if done is not None:
        others = "ack" if record is not None and record.is_whole else otherwise
        rows = rows.join(done.withColumn("_done", F.lit(True)).distinct(), "_seq", "left")
        outcome = F.when(F.col("_done"), "ack").otherwise(others)
    error = F.when(outcome == LOSE, GONE)
    if record is not None and record.outcomes:
        listed = [(seq, *outcome) for seq, outcome in record.outcomes.items()]
        columns = "_seq long, _outcome string, _recorded string"
        rows = rows.join(mine.sparkSession.createDataFrame(listed, columns), "_seq", "left")
        error = F.when(F.col("_outcome").isNull(), error).otherwise(F.col("_recorded"))
        outcome = F.coalesce("_outcome", outcome)
    return rows.select("_seq", outcome.alias("outcome"), error.alias("error")).localCheckpoint()
