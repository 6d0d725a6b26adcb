"""Outcomes as rows: the rule of attempts, retries and dead letters, as Spark applies it."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_queue.config import QueueConfig, RetryPolicy
from spark_queue.delta.replica.settling import LOSE
from spark_queue.delta.tables.schema import ACKED, DEAD, READY

_MICROS = 1_000_000


def judged(told: DataFrame, config: QueueConfig, now: datetime) -> DataFrame:
    """Turn outcomes into rows: the rule of attempts, retries and dead letters.

    Parameters
    ----------
    told : DataFrame
        Rows of the status log, one an item, with ``outcome`` and ``error``.
    config : QueueConfig
        How often and how late to retry.
    now : datetime
        The instant of the settle.
    """
    failed = F.col("outcome") == "nack"
    gone = F.col("outcome") == LOSE
    attempts = F.col("_attempts") + failed.cast("int")
    losses = F.col("_losses") + gone.cast("int")
    spent = F.lit(False)
    if config.max_attempts is not None:
        spent = failed & (attempts >= config.max_attempts)
    if config.max_losses is not None:
        spent = spent | (gone & (losses >= config.max_losses))
    state = (
        F.when(F.col("outcome") == "ack", ACKED)
        .when((F.col("outcome") == "dead") | spent, DEAD)
        .otherwise(READY)
    )
    delay = _in_micros(retry_delay(config.retry, attempts))
    retry_at = F.timestamp_micros(F.lit(_micros(now)) + delay)
    return told.withColumns(
        {
            "_attempts": attempts,
            "_losses": losses,
            "_state": state,
            "_available_at": F.when(failed & ~spent, retry_at),
            "_error": F.col("error"),
            "_at": F.lit(now),
            "_lease_expires_at": F.lit(None).cast("timestamp"),
            "_turn": F.lit(None).cast("double"),
            "_overdue": F.lit(None).cast("boolean"),
        }
    ).drop("outcome", "error")


def retry_delay(policy: RetryPolicy, attempts: Column) -> Column:
    """Return the seconds until the next attempt, as :meth:`RetryPolicy.delay_after` counts them.

    The draw within the jitter is ``crc32("<seq>:<attempts>") / 2**32``.
    """
    factor: Column
    if policy.backoff == "fixed":
        factor = F.lit(1.0)
    elif policy.backoff == "linear":
        factor = attempts.cast("double")
    else:
        factor = F.pow(F.lit(2.0), F.least(attempts - 1, F.lit(62)))
    seconds = F.least(
        F.lit(policy.delay.total_seconds()) * factor, F.lit(policy.cap.total_seconds())
    )
    text = F.concat_ws(":", F.col("_seq").cast("string"), attempts.cast("string"))
    draw = F.crc32(text.cast("binary")) / F.lit(2.0**32)
    return seconds * (F.lit(1.0) - F.lit(policy.jitter) * draw)


def _in_micros(seconds: Column) -> Column:
    """Round seconds as a ``timedelta`` does: the fraction by itself, and a half to the even."""
    whole = F.floor(seconds)
    return whole * _MICROS + F.rint((seconds - whole) * _MICROS).cast("long")


def _micros(at: datetime) -> int:
    return int(at.timestamp()) * _MICROS + at.microsecond
