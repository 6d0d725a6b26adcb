"""Items that leave a queue and are kept elsewhere."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.plans.snapshot import user_columns
from spark_queue.delta.tables.address import TableAddress


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
    kept = rows.select(
        *user_columns(rows), "_seq", "_enqueued_at", "_origin", F.lit(queue).alias("_queue")
    )
    writer = kept.write.format("delta").mode("append")
    writer = writer.option("txnAppId", name).option("txnVersion", generation + 1)
    address = TableAddress.of(to)
    if address.is_path:
        writer.save(address.target)
    else:
        writer.saveAsTable(address.target)
