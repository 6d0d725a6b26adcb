"""Settles and renewals decided by SQL over the rows of a status log."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from typing import Any

import pyarrow as pa

from spark_queue.config import QueueConfig
from spark_queue.log.schema import ITEM
from spark_queue.reader_config import ReaderConfig
from spark_queue.retry_policy import RetryPolicy
from spark_queue.rules.outcomes import TOO_OFTEN, retry_draw
from spark_queue.saying import WAITING
from spark_queue.sql import log_rows
from spark_queue.sql.catalogue import SETTING_COLUMNS, setting_values
from spark_queue.sql.sql_engines import HERE, SqlEngine, Tables
from spark_queue.state.schedulers import punted_at
from spark_queue.state.settle_decision import (
    GONE,
    LOSE,
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
from spark_queue.state.snapshot import Snapshot

ASKED = pa.schema(
    [
        ("lease", pa.int64()),
        ("now", pa.int64()),
        ("outcome", pa.string()),
        ("error", pa.string()),
        ("after", pa.int64()),
        ("too_often", pa.string()),
        ("until", pa.int64()),
        ("lapsed_by", pa.int64()),
        ("is_sure", pa.bool_()),
        ("least_losses", pa.int64()),
        *SETTING_COLUMNS,
        ("punted_at", pa.int64()),
        ("jitter", pa.float64()),
    ]
)

OUTCOMES = pa.schema(
    [("seq", pa.int64()), ("outcome", pa.string()), ("error", pa.string()), ("after", pa.int64())]
)
RETRIES = pa.schema([("seq", pa.int64()), ("available_at", pa.int64())])
DELAYS = pa.schema([("attempts", pa.int64()), ("seconds", pa.float64())])
WORKERS = pa.schema([("worker_id", pa.string())])


def settle(
    at: Snapshot,
    lease: int,
    verdict: Verdict,
    now: datetime,
    by: SqlEngine = HERE,
) -> StagedSettle:
    """Judge the items of a lease as of a step.

    Parameters
    ----------
    by : SqlEngine
        The engine.

    Raises
    ------
    TooManyRowsError
        When more rows would be read than the engine takes.
    """
    rescuer = verdict if isinstance(verdict, ByARescuer) else None
    verdict = verdict if rescuer is None else rescuer.verdict
    gone = (rescuer and rescuer.which) or verdict
    config, reader_config = at.settings.config, at.reader_config
    said: dict[str, object] = {"kind": ITEM}
    if rescuer is not None or isinstance(verdict, Gone):
        said["lease"] = None
    with closing(by.start({"settle_by_item": _text_of(verdict)})) as database:
        database.give("states", by.logs.grants_of(at.store, at.status, lease))
        gone = gone if isinstance(gone, Gone) else Gone(now, frozenset(), is_sure=True)
        database.give("asked", _question(verdict, gone, lease, config, reader_config, now))
        ended = pa.array(sorted(gone.ended), pa.string())
        database.give("workers_ended", pa.table([ended], schema=WORKERS))
        if isinstance(verdict, Renewed):
            return _stage(by, database, database.find("renewal_rows"), said)
        if isinstance(verdict, Each | Some):
            database.give("outcomes", _outcomes(by, verdict))
        if isinstance(verdict, Gone) or (
            isinstance(verdict, Every) and verdict.outcome not in WAITING
        ):
            database.give("wait_times", RETRIES.empty_table())
        else:
            database.keep("settle_by_item")
            _add_retries(database, config.retry, now)
        return _stage(by, database, database.find("settle_rows"), said)


def _text_of(verdict: Verdict) -> str:
    if isinstance(verdict, Each | Some):
        return "settle_by_item"
    return "settle_of_gone_worker" if isinstance(verdict, Gone) else "settle_alike"


def _question(
    verdict: Verdict,
    gone: Gone,
    lease: int,
    config: QueueConfig,
    reader_config: ReaderConfig,
    now: datetime,
) -> pa.Table:
    asked: dict[str, object] = {
        "lease": lease,
        "too_often": TOO_OFTEN,
        "now": log_rows.micros(now),
        **setting_values(config),
        "punted_at": punted_at(reader_config),
        "jitter": config.retry.jitter,
        "lapsed_by": log_rows.micros(gone.lapsed_by),
        "is_sure": gone.is_sure,
        "least_losses": gone.losses,
    }
    if isinstance(verdict, Every):
        asked |= {"outcome": verdict.outcome, "error": verdict.error, "after": verdict.micros}
    elif isinstance(verdict, Renewed):
        asked["until"] = log_rows.micros(now + verdict.by)
    elif isinstance(verdict, Gone):
        asked |= {"outcome": LOSE, "error": GONE}
    return pa.Table.from_pylist([asked], ASKED)


def _outcomes(by: SqlEngine, verdict: Each | Some) -> Any:
    """Return the outcomes of items."""
    if isinstance(verdict, Each):
        return by.logs.outcomes_of(verdict.outcomes)
    told = [
        {"seq": seq, "outcome": said.outcome, "error": said.error, "after": said.micros}
        for seq, said in verdict.outcomes.items()
    ]
    return pa.Table.from_pylist(told, OUTCOMES)


def _add_retries(database: Tables, policy: RetryPolicy, now: datetime) -> None:
    """Give the times of retries, or the delays from which the engine draws them."""
    if database.draws_jitter:
        attempts = database.rows("retry_attempts")["attempts"].to_pylist()
        seconds = [policy.seconds_after(n) for n in attempts]
        database.give("delays", pa.table([attempts, seconds], schema=DELAYS))
    else:
        database.give("retry_times", _retries(database.rows("retried_items"), policy, now))


def _retries(failing: pa.Table, policy: RetryPolicy, now: datetime) -> pa.Table:
    """Return the times of retries; Python draws the jitter."""
    seqs, attempts = (failing[name].to_pylist() for name in ("seq", "attempts"))
    if policy.jitter:
        delays = [
            policy.delay_after(n, retry_draw(seq, n)) for seq, n in zip(seqs, attempts, strict=True)
        ]
    else:
        known = {n: policy.delay_after(n) for n in set(attempts)}
        delays = [known[n] for n in attempts]
    at = [log_rows.micros(now + delay) for delay in delays]
    return pa.table([seqs, at], schema=RETRIES)


def _stage(by: SqlEngine, database: Tables, rows: Any, said: dict[str, object]) -> StagedSettle:
    """Return rows of a settle, with facts about them."""
    database.give("outcome_rows", rows)
    facts = database.rows("settle_facts").to_pylist()
    held = [row for row in facts if row["state"] is not None]
    lost = database.rows("lost_items", NAMED)["seq"].to_pylist() if len(held) < len(facts) else []
    return StagedSettle(
        rows=by.logs.status_rows(database.table("logged_rows"), said),
        counts={row["state"]: row["items"] for row in held},
        lost=tuple(lost),
        failed=sum(row["failed"] for row in held),
        deferred=sum(row["deferred"] for row in held),
    )
