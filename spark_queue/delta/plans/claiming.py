"""Claims that were granted before, as Spark reads them."""

from __future__ import annotations

from datetime import timezone

from pyspark.sql import DataFrame, functions as F

from spark_queue.delta.replica.request import GrantedClaim
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CLAIMED, ITEM, READY


def find_claim(store: Store, claim_id: str) -> GrantedClaim | None:
    """Return the newest claim that was granted under an id, as the log has it."""
    log = store.status.read().where(F.col("_kind") == ITEM)
    mine = log.where((F.col("_claim_id") == claim_id) & (F.col("_state") == CLAIMED))
    claims = mine.where(F.col("_lease") == F.col("_step")).groupBy("_step")
    found = claims.agg(F.count(F.lit(1)), F.max("_at"), F.max("_lease_expires_at"))
    row = found.orderBy(F.desc("_step")).head()
    if row is None or _given_back(log, row[0]) == row[1]:
        return None
    over = _over(log, row[0])
    return GrantedClaim(
        step=row[0],
        count=row[1] - len(over),
        over=over,
        claim_id=claim_id,
        claimed_at=row[2].astimezone(timezone.utc),
        lease_expires_at=row[3].astimezone(timezone.utc),
    )


def _over(log: DataFrame, lease: int) -> tuple[int, ...]:
    """Return the items of a claim that it does not hold any more."""
    is_of_claim = (F.col("_state") == CLAIMED) & (F.col("_lease") == lease)
    granted = log.where(is_of_claim & (F.col("_step") == lease)).select("_seq")
    since = log.where(F.col("_step") >= lease).join(granted, "_seq", "left_semi")
    held = F.max_by(F.coalesce(is_of_claim, F.lit(False)), "_step").alias("_held")
    rows = since.groupBy("_seq").agg(held).where(~F.col("_held")).orderBy("_seq").collect()
    return tuple(row["_seq"] for row in rows)


def _given_back(log: DataFrame, lease: int) -> int:
    """Return how many items of a claim were next made ready without a worker id."""
    is_of_claim = (F.col("_state") == CLAIMED) & (F.col("_lease") == lease)
    granted = log.where(is_of_claim & (F.col("_step") == lease)).select("_seq")
    later = log.where((F.col("_step") > lease) & ~F.coalesce(is_of_claim, F.lit(False)))
    row = F.struct("_state", "_lease", "_error")
    moved = later.join(granted, "_seq", "left_semi").groupBy("_seq")
    after = moved.agg(F.min_by(row, "_step").alias("_next"))
    nobodys = F.col("_next._lease").isNull() & F.col("_next._error").isNull()
    return after.where((F.col("_next._state") == READY) & nobodys).count()
