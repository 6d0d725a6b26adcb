"""Distinct, fair and serial as operators on streams."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import StringType

from spark_queue.checks import MOST, optional, require_count, require_duration, require_text
from spark_queue.config import OnFailure, QueueConfig
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError
from spark_queue.operators.fair import ROUND, price_of
from spark_queue.operators.key_columns import (
    Columns,
    fields_of,
    has,
    keys_of,
    one,
    plain_column,
    require_free,
    require_number,
    require_shares,
)
from spark_queue.retry_policy import RetryPolicy
from spark_queue.streaming.bucketed import BUCKETS, Stream, answer, require_streaming
from spark_queue.streaming.stream_groups import OUTCOMES, SerialRules
from spark_queue.streaming.stream_rules import (
    ARRIVAL,
    CLOCK,
    COMPLETION,
    DistinctRules,
    FairRules,
)

#: The column that :func:`one_active_per_group` adds.
RUN = "run"

_OUTCOME = "outcome"

#: A time-out that never comes.
_NEVER = timedelta(days=36_500)


def distinct_in_flight(
    arrivals: DataFrame,
    completions: DataFrame,
    key: Columns,
    *,
    order_by: str | Column | None = None,
    buckets: int = BUCKETS,
    checkpoint: str | None = None,
) -> DataFrame:
    """Pass an arrival only if its key is not in flight; a completion frees the key.

    Unlike with ``dropDuplicates``, a key can come back: it passes again after its completion.

    Parameters
    ----------
    arrivals : DataFrame
        A stream of rows that ask to run.
    completions : DataFrame
        A stream of rows that say a key is done; it has the columns of ``key``.
    key : str, Column or sequence of them
        What makes two rows the same work. A row whose key is null always passes: one of several
        columns is, or the one column. A struct that has nulls is not null.
    order_by : str or Column, optional
        A whole number or a timestamp that both streams have, never null: in this order the rows of
        a micro-batch are applied, and at the same place completions first. A completion then frees
        only an arrival that came before it. By default all completions of a micro-batch come before
        its arrivals, and each frees its key.
    buckets : int
        Into how many buckets keys are divided when the query first starts: more than there are
        cores. How many keys there are does not matter.
    checkpoint : str, optional
        Where the query keeps its state. With it, a query that starts again may name other
        ``buckets``: it goes on with those that the state has.

    Returns
    -------
    DataFrame
        The arrivals that passed, all columns and types as they were. A stream in append mode.

    Raises
    ------
    InvalidArgumentError
        When a frame is no stream, or a column is unknown or named as operators name theirs.
    SchemaMismatchError
        When the keys of the two streams have different types; one is a map, a variant or a text
        with a collation; or ``order_by`` is no sequence.
    UnsafeSessionError
        When the session keeps state elsewhere than in RocksDB, or not as Avro.
    SetupError
        When Spark is older than 4.1, which has no stateful operators in Python.

    Notes
    -----
    A completion of a key that is not in flight changes nothing and is counted (``unknown``;
    :func:`stored_counts`); with ``order_by``, so is one older than the row in flight
    (``stale``): late and repeated ones are harmless. Without it a repeated one looks like that
    of a newer arrival, whose key it frees. State: the keys in flight.

    A null in ``order_by`` stops the query with an error that names the column: leave such rows out
    with ``where`` and start it again from its checkpoint.
    """
    _require_query(buckets, checkpoint, arrivals=arrivals, completions=completions)
    ordered = partial(Stream, key=key, at=order_by, at_name="order_by")
    return answer(
        [
            ordered(what="arrivals", df=arrivals, kind=ARRIVAL),
            ordered(what="completions", df=completions, kind=COMPLETION),
        ],
        partial(DistinctRules, ordered=order_by is not None),
        add=None,
        buckets=buckets,
        checkpoint=checkpoint,
    )


def fair_rounds(
    arrivals: DataFrame,
    key: Columns,
    *,
    order_by: str | Column,
    served: DataFrame | None = None,
    weights: Mapping[str, float] | None = None,
    cost: str | Column | None = None,
    buckets: int = BUCKETS,
    checkpoint: str | None = None,
) -> DataFrame:
    """Tag arrivals with the round in which each is served; rounds go on from batch to batch.

    Sorted by ``round``, then ``order_by``, every key gets one row a round: a key that comes late is
    served in the next round, however many rows of another wait.

    Parameters
    ----------
    arrivals : DataFrame
        A stream of rows that wait for their turn.
    key : str, Column or sequence of them
        Who takes turns. Null is a key like any other.
    order_by : str or Column
        A whole number or a timestamp, never null: the order within a key and a micro-batch.
    served : DataFrame, optional
        A stream of rows that were served, with the ``round`` that they had: from it the operator
        knows which round is being served. Rows of a micro-batch are taken in before its arrivals.
        By default all that was tagged in one micro-batch has been served when the next one comes:
        right where each micro-batch is worked off by itself. All keys are then in one bucket.
    weights : mapping of str to float, optional
        How many rows of a key make up its part of a round, by the key as a string; 1 where a key is
        not named.
    cost : str or Column, optional
        How many turns a row takes; 1 by default. A cost that is not above 0 fails the query.
    buckets, checkpoint
        As for :func:`distinct_in_flight`.

    Returns
    -------
    DataFrame
        The arrivals, all columns and types as they were, and ``round`` (double). A stream in append
        mode.

    Raises
    ------
    InvalidArgumentError, SchemaMismatchError, UnsafeSessionError, SetupError
        As for :func:`distinct_in_flight`; or when the arrivals have a column ``round``, ``served``
        has none, or a weight is not above 0.

    Notes
    -----
    State: for each key the last round that it was given, until that round is served; a key that is
    silent then costs nothing.
    """
    _require_query(buckets, checkpoint, arrivals=arrivals, served=served)
    require_free(arrivals, ROUND)
    one(arrivals, "order_by of arrivals", order_by)
    require_shares(weights, len(keys_of(arrivals, "the key of arrivals", key)[0]))
    price = None if cost is None else price_of(arrivals, "cost", cost)
    arriving = Stream(
        what="arrivals",
        df=arrivals,
        kind=ARRIVAL,
        key=key,
        seq=order_by,
        null_is_a_key=True,
        number=F.lit(1.0) if price is None else price,
    )
    streams = [arriving]
    if served is not None:
        number = one(served, "round of served", ROUND)
        require_number("round of served", fields_of(served, "served", [number])[0].dataType)
        streams.append(Stream(what="served", df=served, kind=COMPLETION, number=number))
    return answer(
        streams,
        partial(FairRules, dict(weights or {}), at_once=served is None),
        add=lambda number: number.alias(ROUND),
        buckets=1 if served is None else buckets,
        checkpoint=checkpoint,
    )


def one_active_per_group(
    arrivals: DataFrame,
    completions: DataFrame,
    group: Columns,
    order_by: str | Column,
    *,
    at: str | Column | None = None,
    heartbeats: DataFrame | None = None,
    limit: int = 1,
    on_failure: OnFailure = "block",
    max_attempts: int | None = None,
    retry: RetryPolicy | None = None,
    time_out: timedelta | None = None,
    max_losses: int | None = None,
    buckets: int = BUCKETS,
    checkpoint: str | None = None,
) -> DataFrame:
    """Pass the next row of a group when, and only when, the one before is over.

    Parameters
    ----------
    arrivals : DataFrame
        A stream of rows that are to run. A row whose group is null (as a key of
        :func:`distinct_in_flight`) passes at once, and nothing is remembered of it.
    completions : DataFrame
        A stream of rows that say how a run ended: the columns of ``group`` and ``order_by`` of the
        row that ran, and optionally ``outcome`` (``"ack"``, ``"nack"``, ``"release"`` or
        ``"dead"``; null stands for ``"ack"``, and any other word stops the query, which names it)
        and ``run`` (which run of the row it was: one that is over changes nothing).
    group : str, Column or sequence of them
        What must run one after another.
    order_by : str or Column
        A whole number or a timestamp, never null: the order within a group and a micro-batch. With
        its group it names a row: one that waits or runs already is left out.
    at : str or Column, optional
        A timestamp that both streams, and the heartbeats, have: when the row was made. The rows of
        a micro-batch are applied in this order, at one instant completions first. By default there
        is no time, and completions of a micro-batch come before its arrivals.
    heartbeats : DataFrame, optional
        A stream of rows that only let time pass: each reaches every bucket. Delays and time-outs
        come to nothing in a stream that stands still.
    limit : int
        How many rows of a group may run at a time.
    on_failure : "block" or "skip"
        Whether a row that failed is retried before its group goes on, or after others.
    max_attempts : int, optional
        After how many failures a row is given up; never by default.
    retry : RetryPolicy, optional
        How long a failed row waits; not at all by default. Needs ``at`` where it waits.
    time_out : timedelta, optional
        After what time a run that has not completed is taken for lost, and its row passes again.
        Never by default; needs ``at``.
    max_losses : int, optional
        After how many time-outs a row is given up; never by default.
    buckets, checkpoint
        As for :func:`distinct_in_flight`.

    Returns
    -------
    DataFrame
        The rows that may run now, all columns and types as they were, and ``run`` (int, from 1).
        A stream in append mode. Rows of one micro-batch are in no order.

    Raises
    ------
    InvalidArgumentError, SchemaMismatchError, UnsafeSessionError, SetupError, InvalidConfigError
        As for :func:`distinct_in_flight`; or when the arrivals have a column ``run``, an option
        needs a time and there is none, or a limit is below 1.

    Notes
    -----
    The rules are those of the in-memory scheduler, one for each bucket. Late, repeated and unknown
    completions change nothing and are counted (:func:`stored_counts`). State: the rows that wait
    or run.
    """
    _require_query(
        buckets, checkpoint, arrivals=arrivals, completions=completions, heartbeats=heartbeats
    )
    require_free(arrivals, RUN)
    one(arrivals, "order_by of arrivals", order_by)
    require_count("limit", limit)
    optional(require_duration, "time_out", time_out)
    config = QueueConfig(
        group_key="group",
        group_limit=limit,
        on_failure=on_failure,
        max_attempts=max_attempts,
        retry=retry or RetryPolicy(delay=timedelta(0)),
        lease=_NEVER if time_out is None else time_out,
        max_losses=max_losses,
    )
    _require_time(at, config.retry, time_out, heartbeats)
    timed = partial(Stream, at=at, at_is_a_time=True)
    streams = [
        timed(what="arrivals", df=arrivals, kind=ARRIVAL, key=group, seq=order_by),
        timed(
            what="completions",
            df=completions,
            kind=COMPLETION,
            key=group,
            seq=order_by,
            number=_run_of(completions),
            outcome=_outcome_of(completions),
        ),
    ]
    if heartbeats is not None:
        streams.append(timed(what="heartbeats", df=heartbeats, kind=CLOCK))
    return answer(
        streams,
        partial(SerialRules, config),
        add=lambda number: number.cast("int").alias(RUN),
        buckets=buckets,
        checkpoint=checkpoint,
    )


def _require_time(
    at: str | Column | None,
    retry: RetryPolicy,
    time_out: timedelta | None,
    heartbeats: DataFrame | None,
) -> None:
    if at is not None:
        return
    if time_out is not None:
        raise InvalidArgumentError(f"time_out is {time_out}: name the rows' time with at=")
    if retry.delay:
        raise InvalidArgumentError(f"retry waits {retry.delay}: name the rows' time with at=")
    if heartbeats is not None:
        raise InvalidArgumentError("heartbeats are given: name their time with at=")


def _require_query(buckets: object, checkpoint: object, **frames: DataFrame | None) -> None:
    """Raise where a frame is no stream; some that go with the arrivals may be left out."""
    require_count("buckets", buckets, most=MOST)
    optional(require_text, "checkpoint", checkpoint)
    for what, df in frames.items():
        if df is not None or what in ("arrivals", "completions"):
            require_streaming(what, df)


def _run_of(completions: DataFrame) -> Column | None:
    if not has(completions, RUN):
        return None
    run = plain_column(RUN)
    require_number("run of completions", fields_of(completions, "run", [run])[0].dataType)
    return run


def _outcome_of(completions: DataFrame) -> Column | None:
    if not has(completions, _OUTCOME):
        return None
    outcome = plain_column(_OUTCOME)
    (field,) = fields_of(completions, _OUTCOME, [outcome])
    if not isinstance(field.dataType, StringType):
        raise SchemaMismatchError(
            "outcome of completions", f"is {field.dataType.simpleString()}, not a text"
        )
    said = F.concat(
        F.lit("outcome of completions is '"),
        outcome,
        F.lit(
            f"': it must be one of {', '.join(OUTCOMES)}, or null; put it right on the stream, and "
            "start the query again from its checkpoint"
        ),
    )
    is_one = outcome.isNull() | outcome.isin(*OUTCOMES)
    return F.when(is_one, outcome).otherwise(F.raise_error(said).cast("string"))
