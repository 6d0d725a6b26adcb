"""Settles and renewals decided by SQL over the files of a status log."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.config import QueueConfig, RetryPolicy
from spark_queue.delta.replica.rules import in_force
from spark_queue.delta.replica.settling import GONE, LOSE
from spark_queue.delta.sql import log_rows
from spark_queue.delta.sql.database import Database
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import ITEM, READY
from spark_queue.delta.verdicts import (
    NAMED,
    ByARescuer,
    Each,
    Every,
    Gone,
    Renewed,
    Some,
    StagedSettle,
    Verdict,
)
from spark_queue.rules.jitter import retry_draw

_ASKED = pa.schema(
    [
        ("lease", pa.int64()),
        ("now", pa.int64()),
        ("outcome", pa.string()),
        ("error", pa.string()),
        ("until", pa.int64()),
        ("gone_by", pa.int64()),
        ("is_sure", pa.bool_()),
        ("least_losses", pa.int64()),
        ("max_attempts", pa.int64()),
        ("max_losses", pa.int64()),
    ]
)

_OUTCOMES = pa.schema([("seq", pa.int64()), ("outcome", pa.string()), ("error", pa.string())])
_RETRIES = pa.schema([("seq", pa.int64()), ("available_at", pa.int64())])
_WORKERS = pa.schema([("worker_id", pa.string())])


def settle(
    store: Store, head: StatusHead, lease: int, verdict: Verdict, now: datetime
) -> StagedSettle | None:
    """Judge the items of a lease as of a step; ``None`` where only Spark can read the verdict.

    Raises
    ------
    TooManyRowsError
        When more rows would be read than this process takes.
    """
    rescuer = verdict if isinstance(verdict, ByARescuer) else None
    if rescuer is not None and rescuer.which is not None:
        return None
    verdict = verdict if rescuer is None else rescuer.verdict
    config = in_force(store.settings(head).config, store.limits())
    said: dict[str, object] = {"kind": ITEM}
    if rescuer is not None or isinstance(verdict, Gone):
        said["lease"] = None
    with closing(Database({"told": _text_of(verdict)})) as database:
        database.give("states", log_rows.grants_of(store, head, lease))
        database.give("asked", _question(verdict, lease, config, now))
        _give_outcomes(database, verdict)
        database.keep("held")
        if isinstance(verdict, Renewed):
            return _stage(database.rows("renewed"), said)
        database.keep("told")
        database.give("retries", _retries(database.rows("failing"), config.retry, now))
        rows = database.rows("settled")
    return _stage(rows, said)


def _text_of(verdict: Verdict) -> str:
    if isinstance(verdict, Each | Some):
        return "told_each"
    return "told_gone" if isinstance(verdict, Gone) else "told_every"


def _question(verdict: Verdict, lease: int, config: QueueConfig, now: datetime) -> pa.Table:
    asked: dict[str, object] = {
        "lease": lease,
        "now": log_rows.micros(now),
        "max_attempts": config.max_attempts,
        "max_losses": config.max_losses,
    }
    if isinstance(verdict, Every):
        asked |= {"outcome": verdict.outcome, "error": verdict.error}
    elif isinstance(verdict, Renewed):
        asked["until"] = log_rows.micros(now + verdict.by)
    elif isinstance(verdict, Gone):
        asked |= {"outcome": LOSE, "error": GONE, "gone_by": log_rows.micros(verdict.now)}
        asked |= {"is_sure": verdict.is_sure, "least_losses": verdict.losses}
    return pa.Table.from_pylist([asked], _ASKED)


def _give_outcomes(database: Database, verdict: Verdict) -> None:
    """Have the tables of a verdict that says more than one outcome."""
    if isinstance(verdict, Each):
        told = verdict.outcomes.select("_seq", "outcome", "error").toArrow()
        database.give("outcomes", told.rename_columns(_OUTCOMES.names).cast(_OUTCOMES))
    elif isinstance(verdict, Some):
        columns = [list(verdict.outcomes), *zip(*verdict.outcomes.values(), strict=True)]
        columns = columns if verdict.outcomes else [[], [], []]
        database.give("outcomes", pa.table(columns, schema=_OUTCOMES))
    elif isinstance(verdict, Gone):
        ended = pa.array(sorted(verdict.ended), pa.string())
        database.give("workers_ended", pa.table([ended], schema=_WORKERS))


def _retries(failing: pa.Table, policy: RetryPolicy, now: datetime) -> pa.Table:
    """Return when items that fail are tried again; jitter is drawn in Python."""
    seqs, attempts = (failing[name].to_pylist() for name in ("seq", "attempts"))
    if policy.jitter:
        delays = [
            policy.delay_after(n, retry_draw(seq, n)) for seq, n in zip(seqs, attempts, strict=True)
        ]
    else:
        known = {n: policy.delay_after(n) for n in set(attempts)}
        delays = [known[n] for n in attempts]
    at = [log_rows.micros(now + delay) for delay in delays]
    return pa.table([seqs, at], schema=_RETRIES)


def _stage(rows: pa.Table, said: dict[str, object]) -> StagedSettle:
    """Return rows of a settle with the facts of them."""
    held = rows.filter(rows["is_held"])
    by_state = held.group_by("state").aggregate([([], "count_all")]).to_pylist()
    failed = pc.and_(
        pc.equal(held["state"], READY), pc.is_in(held["outcome"], pa.array(["nack", LOSE]))
    )
    lost = pc.unique(rows.filter(pc.invert(rows["is_held"]))["seq"])
    return StagedSettle(
        rows=log_rows.status_rows(held, said),
        counts={row["state"]: row["count_all"] for row in by_state},
        lost=tuple(sorted(lost.to_pylist())[:NAMED]),
        failed=pc.sum(failed).as_py() or 0,
    )
