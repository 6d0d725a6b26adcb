"""Items that leave a queue and are kept elsewhere."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.plans.snapshot import user_columns
from spark_queue.delta.tables import output_columns
from spark_queue.delta.tables.address import TableAddress
from spark_queue.delta.tables.spark_log import is_delta


def add(rows: DataFrame, queue: str, name: str, generation: int, to: str) -> None:
    """Append the items of a generation to a Delta table, which is made where it is missing.

    Adding them again after a crash does nothing: the table knows which generations it has.

    Parameters
    ----------
    rows : DataFrame
        Items, as rows of the item log.
    queue : str
        The name of the queue, which the rows carry as ``_queue``.
    name : str
        Under what the table knows which generations it has.
    generation : int
        The number of the generation.
    to : str
        The table; a text with a ``/`` is a path.
    """
    writer = _select(rows, queue).write.format("delta").mode("append")
    writer = writer.option("txnAppId", name).option("txnVersion", generation + 1)
    address = TableAddress.of(to)
    if address.is_path:
        writer.save(address.target)
    else:
        writer.saveAsTable(address.target)


def require(rows: DataFrame, queue: str, to: str) -> None:
    """Check that items can be appended to a table, if it is there.

    Raises
    ------
    SchemaMismatchError
        With the column that does not fit.
    """
    spark, address = rows.sparkSession, TableAddress.of(to)
    if is_delta(spark, address):
        output_columns.require(
            spark,
            address,
            spark.table(address.sql()).schema,
            _select(rows, queue).schema,
            f"the archive {address.target!r}",
            "the queue",
        )


def _select(rows: DataFrame, queue: str) -> DataFrame:
    return rows.select(
        *user_columns(rows), "_seq", "_enqueued_at", "_origin", F.lit(queue).alias("_queue")
    )
