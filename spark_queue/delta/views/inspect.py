"""Counts of a queue, and why one of its items is not running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from spark_queue.delta.plans import limits, snapshot
from spark_queue.delta.replica.rules import expires_at
from spark_queue.delta.store import replicas
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CLAIMED, READY, REFUSED, TERMINAL
from spark_queue.delta.views.cut import Cut
from spark_queue.results import Explanation, QueueStats
from spark_queue.rules.explain import Situation, explain_live
from spark_queue.rules.model import ItemReason, Reason, State

_STATES = (READY, CLAIMED, *TERMINAL)

#: A row of Spark, or of a replica.
_Row = Row | Mapping[str, Any]


def stats(store: Store, cut: Cut) -> QueueStats:
    """Count a queue as of a cut of its logs."""
    now = store.clock.now() if cut.at is None else cut.at
    items = snapshot.status(cut.queue, cut.status)
    refused = cut.queue.where(F.col("_kind") == REFUSED)
    counted = items.groupBy("_state").agg(
        F.count(F.lit(1)).alias("items"), F.min("_enqueued_at").alias("oldest")
    )
    by_state = {row["_state"]: row for row in counted.collect()}
    counts = {s: by_state[s]["items"] if s in by_state else 0 for s in _STATES}
    oldest = _utc(by_state[READY]["oldest"]) if READY in by_state else None
    return QueueStats(
        step=cut.status_step,
        at=now,
        paused=store.settings(cut.head).paused,
        **counts,
        refused=refused.count(),
        oldest_age=None if oldest is None else now - oldest,
        per_key=_per_key(items, refused, now),
    )


def _per_key(items: DataFrame, refused: DataFrame, now: datetime) -> DataFrame:
    waited = F.col("_first_claimed_at").cast("double") - F.col("_enqueued_at").cast("double")
    age = F.lit(now).cast("double") - F.col("_enqueued_at").cast("double")
    states = [F.count_if(F.col("_state") == state).alias(state) for state in _STATES]
    kept = items.groupBy(F.col("_fair_key").alias("fair_key")).agg(
        *states,
        F.percentile_approx(waited, 0.5).alias("wait_p50"),
        F.percentile_approx(waited, 0.95).alias("wait_p95"),
        F.max(waited).alias("wait_max"),
        F.max(F.when(F.col("_state") == READY, age)).alias("oldest_age"),
    )
    lost = refused.groupBy(F.col("_fair_key").alias("key")).agg(F.count(F.lit(1)).alias("refused"))
    joined = kept.join(lost, F.col("fair_key").eqNullSafe(F.col("key")), "full")
    named = joined.withColumn("fair_key", F.coalesce("fair_key", "key")).drop("key")
    return named.fillna(0, subset=[*_STATES, "refused"])


def explain(store: Store, seq: int) -> Explanation:
    """Say why an item is not running."""
    known = _live_here(store, seq)
    return _explained_by_spark(store, seq) if known is None else known


def _live_here(store: Store, seq: int) -> Explanation | None:
    """Say it of a live item by what this process knows; ``None`` where it does not."""
    with store.cache().lock:
        replica = replicas.at_hand(store)
        row = None if replica is None else replica.items.get(seq)
        if replica is None or row is None:
            return None
        limit = store.limits()
        rows = [
            {**other, "_expires_at": expires_at(other, limit)} for other in replica.items.values()
        ]
    at = _now(store)
    live = {row["_seq"]: _Seen.of(row) for row in rows}
    staying = [item for item in live.values() if item.state == CLAIMED and not at.ends(item)]
    at = replace(at, in_flight=len(staying))
    group = row["_group_key"]
    members = [live[r["_seq"]] for r in rows if group is not None and r["_group_key"] == group]
    members.sort(key=lambda member: member.seq)
    why = explain_live(live[seq], members, at)
    own = next(other for other in rows if other["_seq"] == seq)
    text = _detail(own, why, {member.seq: member.state for member in members}, at)
    return _because(seq, why.reason, text, by=why.by, until=_until(own, why.reason))


def _explained_by_spark(store: Store, seq: int) -> Explanation:
    items = snapshot.status(store.items(), store.status.read())
    items = items.withColumn("_expires_at", limits.expires_at(store.limits()))
    row = items.where(F.col("_seq") == seq).first()
    if row is None:
        return _not_an_item(store, seq)
    if row["_state"] in TERMINAL:
        error = f": {row['_error']}" if row["_error"] else ""
        when = _said(row["_finished_at"])
        return _because(seq, "finished", f"{row['_state']} at {when}{error}")
    at = _situation(store, items)
    members = _members(items, row, at)
    why = explain_live(_Seen.of(row), members, at)
    text = _detail(row, why, {member.seq: member.state for member in members}, at)
    return _because(seq, why.reason, text, by=why.by, until=_until(row, why.reason))


def _not_an_item(store: Store, seq: int) -> Explanation:
    refused = store.queue.read().where((F.col("_seq") == seq) & (F.col("_kind") == REFUSED))
    row = refused.select("_duplicate_of").first()
    if row is None:
        return _because(seq, "unknown", "no row of the queue has this seq")
    if row[0] is None:
        return _because(seq, "refused", "a reader was full when it came; enqueue it again")
    return _because(seq, "duplicate", f"its key is held by item {row[0]}", by=row[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A live item, as the scheduler's rules look at it."""

    seq: int
    state: State
    losses: int
    available_at: float | None
    expires_at: float | None
    lease_expires_at: float | None

    @classmethod
    def of(cls, row: _Row) -> _Seen:
        return cls(
            seq=row["_seq"],
            state=row["_state"],
            losses=row["_losses"],
            available_at=_seconds(row["_available_at"]),
            expires_at=_seconds(row["_expires_at"]),
            lease_expires_at=_seconds(row["_lease_expires_at"]),
        )

    def is_due(self, now: float) -> bool:
        return self.available_at is None or self.available_at <= now

    def has_expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def ran_out(self, now: float) -> bool:
        return self.lease_expires_at is not None and self.lease_expires_at <= now


def _now(store: Store) -> Situation:
    """Return what the rules say now; in flight is all that is claimed."""
    head = store.status_head()
    settings = store.settings(head)
    return Situation(
        config=settings.config,
        paused=settings.paused,
        now=store.clock.now().timestamp(),
        in_flight=head.claimed,
    )


def _situation(store: Store, items: DataFrame) -> Situation:
    at = _now(store)
    if not at.is_full():
        return at
    staying = items.where((F.col("_state") == CLAIMED) & ~_ends(at))
    return replace(at, in_flight=staying.count())


def _members(items: DataFrame, row: Row, at: Situation) -> list[_Seen]:
    """Return the members of an item's group that may be in its way, in seq order.

    Of each kind no more can matter than the group has slots.
    """
    if row["_group_key"] is None:
        return []
    held, earlier = F.col("_state") == CLAIMED, F.col("_seq") < row["_seq"]
    others = (F.col("_group_key") == row["_group_key"]) & (F.col("_seq") != row["_seq"])
    staying = items.where(others & (held | earlier) & ~_ends(at))
    due = F.col("_available_at").isNull() | _passed("_available_at", at)
    kind = [held, _passed("_lease_expires_at", at), due]
    place = F.row_number().over(Window.partitionBy(*kind).orderBy("_seq"))
    first = staying.withColumn("_place", place).where(F.col("_place") <= at.config.group_limit)
    return [_Seen.of(member) for member in first.orderBy("_seq").collect()]


def _ends(at: Situation) -> Column:
    """Tell whether a claim would end an item, as :meth:`Situation.ends` does."""
    expired = _passed("_expires_at", at)
    worn_out = F.lit(False)
    if at.config.max_losses is not None:
        worn_out = F.col("_losses") + 1 >= at.config.max_losses
    lapsed = _passed("_lease_expires_at", at) & (expired | worn_out)
    return F.when(F.col("_state") == CLAIMED, lapsed).otherwise(expired)


def _passed(column: str, at: Situation) -> Column:
    """Tell whether a time has come; one that is not set never does."""
    now = datetime.fromtimestamp(at.now, timezone.utc)
    return F.coalesce(F.col(column) <= F.lit(now), F.lit(False))


def _detail(row: _Row, why: ItemReason, states: Mapping[int, State], at: Situation) -> str:
    """Say a reason in a sentence."""
    holder = row["_worker_id"] or f"lease {row['_lease']}"
    until = None if row["_lease_expires_at"] is None else _utc(row["_lease_expires_at"])
    if why.by is not None:
        how = "in flight" if states[why.by] == CLAIMED else "waiting before it"
        return f"group {row['_group_key']!r} has item {why.by} {how}"
    texts: dict[Reason, str] = {
        "leased": f"leased by {holder} until {_said(until)}" if until else "",
        "paused": "the queue is paused; resume it",
        "lease lost": f"the lease of {holder} ran out for the last time; the next claim ends it",
        "limit": f"{at.in_flight} items are in flight, {at.config.max_in_flight} are allowed",
        "runnable": "it waits for its turn and a claim",
    }
    if why.reason == "expired":
        return f"its time was over at {_said(row['_expires_at'])}"
    if why.reason == "delayed":
        return f"not before {_said(row['_available_at'])}"
    if why.reason == "runnable" and until is not None:
        return f"the lease of {holder} ran out at {_said(until)}; it waits for a claim"
    return texts[why.reason]


def _until(row: _Row, reason: Reason) -> datetime | None:
    times: dict[Reason, str] = {"leased": "_lease_expires_at", "delayed": "_available_at"}
    return _utc(row[times[reason]]) if reason in times else None


def _seconds(local: datetime | None) -> float | None:
    return None if local is None else _utc(local).timestamp()


def _because(
    seq: int,
    reason: Reason,
    detail: str,
    *,
    by: int | None = None,
    until: datetime | None = None,
) -> Explanation:
    return Explanation(seq=seq, reason=reason, detail=detail, by=by, until=until)


def _said(at: datetime) -> str:
    return _utc(at).isoformat(" ", "seconds")


def _utc(local: datetime) -> datetime:
    """Read a collected timestamp, which is naive and in this process's zone."""
    return local.astimezone(timezone.utc)
