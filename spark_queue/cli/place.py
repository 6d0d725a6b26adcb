"""What a name on the command line means: a path, or a table of the session's catalog."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def placed(spark: SparkSession, name: str) -> str:
    """Return the path or table name that a queue or an output has for the library.

    A path is taken from the working directory. So is a plain name where the session's catalog is
    in memory: a table of that catalog would be gone with the process.
    """
    from spark_queue.delta.tables import address  # noqa: PLC0415 - help works without Spark

    if "/" not in name and _forgets(spark):
        return os.path.abspath(name)  # noqa: PTH100 - a path of a queue is a string
    return address.placed(name)


def here(path: str) -> str:
    """Return a path of files as the JVM finds it, whose working directory may be another."""
    return path if "://" in path else os.path.abspath(path)  # noqa: PTH100 - it may be a pattern


def _forgets(spark: SparkSession) -> bool:
    return spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory"
