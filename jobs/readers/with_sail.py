"""Rows of a Delta table by Sail, through the client of Spark Connect."""

from __future__ import annotations

from functools import cache
from typing import Any

from pysail.spark import SparkConnectServer
from pyspark.sql import DataFrame, SparkSession

from answering import answer

server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
spark = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "UTC")


@cache
def loaded(path: str) -> DataFrame:
    """Return a table, whose log is looked at once."""
    return spark.read.format("delta").load(path)


def rows(path: str, where: str = "true") -> Any:
    """Return the rows that meet a condition."""
    return loaded(path).where(where).toArrow()


if __name__ == "__main__":
    answer(rows)
