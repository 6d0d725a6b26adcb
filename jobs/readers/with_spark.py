"""Rows of a Delta table by a session of Spark that knows this path alone: any version with Delta.

The jars come from Maven Central by the first start. Those for a store, which are large, are brought
where the environment has one.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from delta import configure_spark_with_delta_pip
from pyspark.sql import DataFrame, SparkSession

from answering import answer


def hadoop_version() -> str:
    """Return the version of Hadoop that this Spark brings."""
    (jar,) = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    return jar.stem.rpartition("-")[2]


conf = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "spark.hadoop.fs.s3a.endpoint": os.environ.get("AWS_ENDPOINT_URL", ""),
    "spark.hadoop.fs.s3a.endpoint.region": os.environ.get("AWS_REGION", ""),
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    "spark.hadoop.fs.s3a.access.key": os.environ.get("AWS_ACCESS_KEY_ID", ""),
    "spark.hadoop.fs.s3a.secret.key": os.environ.get("AWS_SECRET_ACCESS_KEY", ""),
}


@cache
def session() -> SparkSession:
    """Return a session; Spark 3.5 prints at its start."""
    builder = SparkSession.builder.master("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    has_store = "AWS_ENDPOINT_URL" in os.environ
    more = [f"org.apache.hadoop:hadoop-aws:{hadoop_version()}"] if has_store else []
    spark = configure_spark_with_delta_pip(builder, more).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@cache
def loaded(path: str) -> DataFrame:
    """Return a table, whose log is looked at once."""
    return session().read.format("delta").load(path)


def rows(path: str, where: str = "true") -> Any:
    """Return the rows that meet a condition."""
    frame: Any = loaded(path).where(where)
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    # Spark 3.5 gives its batches to toPandas alone.
    batches = frame._collect_as_arrow()  # noqa: SLF001 - as toPandas does
    return pa.Table.from_batches(batches) if batches else frame.limit(0).toPandas()


if __name__ == "__main__":
    answer(rows)
