"""Outcomes of single items from their holder, as a frame."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import IntegralType

from spark_queue.delta.verdicts import OUTCOMES
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError
from spark_queue.wording import shorten


def checked(outcomes: DataFrame) -> DataFrame:
    """Return outcomes, evaluated once; the errors are those of :meth:`Claim.settle`."""
    if not isinstance(outcomes, DataFrame):
        raise InvalidArgumentError(f"outcomes is {shorten(outcomes)}: it must be a frame of Spark")
    for column in ("_seq", "outcome"):
        if column not in outcomes.columns:
            raise SchemaMismatchError(column, f"is missing; the frame has {outcomes.columns}")
    kind = outcomes.schema["_seq"].dataType
    if not isinstance(kind, IntegralType):
        raise SchemaMismatchError("_seq", f"is {kind.simpleString()}, not a whole number")
    error = F.col("error") if "error" in outcomes.columns else F.lit(None)
    rows = outcomes.select(
        F.col("_seq").cast("long"), "outcome", error.cast("string").alias("error")
    ).localCheckpoint()
    known = F.col("outcome").isin(*OUTCOMES)
    nobody = F.col("_seq").isNull()
    wrong = rows.where(~known | F.col("outcome").isNull() | nobody).first()
    if wrong is not None and wrong["_seq"] is None:
        raise InvalidArgumentError(f"a row with outcome {wrong['outcome']!r} has no _seq")
    if wrong is not None:
        raise InvalidArgumentError(
            f"outcome {wrong['outcome']!r} of seq {wrong['_seq']}: use {', '.join(OUTCOMES)}"
        )
    twice = rows.groupBy("_seq").count().where("count > 1").first()
    if twice is not None:
        raise InvalidArgumentError(f"seq {twice['_seq']} has {twice['count']} outcomes; give one")
    return rows
