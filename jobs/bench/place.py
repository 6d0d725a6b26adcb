"""Where a benchmark over Spark runs: a session of its own, and a folder that is gone afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from spark_queue.session import local_session


@contextmanager
def session_and_folder(
    name: str, place: Path | None, **settings: str
) -> Iterator[tuple[SparkSession, Path]]:
    """Start a session of six gigabytes, and make a folder in which it also spills."""
    root = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=place))
    memory = {"spark.driver.memory": "6g", "spark.local.dir": str(root)}
    spark = local_session(name, quiet=True, **{**memory, **settings})
    try:
        yield spark, root
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)
