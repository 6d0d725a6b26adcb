"""Make small queues of the format that this checkout writes, and pack them into one archive.

Run it before the format changes, in the checkout that still writes the old one::

    python tests/data/make_golden.py tests/data/queues-of-format-6.zip

A later release must open what is in there and go on, or refuse it and say what to do;
``tests/delta/test_formats.py`` has what each queue holds.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

from pyspark.sql import SparkSession

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.local_queue import LocalQueue
from spark_queue.retry_policy import RetryPolicy
from spark_queue.session import local_session

#: An archive entry says when it was made; that of a golden queue always says the same.
_MADE = (2026, 1, 1, 0, 0, 0)

#: Large enough for every lease to outlive the making.
_LEASE = timedelta(hours=1)

#: A few rows a step; and the archive compresses better than Parquet.
_SMALL = {
    "spark.sql.parquet.compression.codec": "uncompressed",
    "spark.default.parallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}

Row = tuple[object, ...]


def main(archive: str) -> None:
    """Make the queues in a directory of their own, and pack it."""
    spark = local_session("golden", quiet=True, **_SMALL)
    with tempfile.TemporaryDirectory() as directory:
        make(spark, Path(directory))
        pack(Path(directory), Path(archive))
    spark.stop()


def make(spark: SparkSession, root: Path) -> None:
    """Make one queue for each thing that a stored queue can be."""
    _strings(spark, str(root / "strings"))
    _readers(spark, str(root / "readers"))
    _numbers(spark, str(root / "numbers"))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    _times(spark, str(root / "times"))
    _structs(spark, str(root / "structs"))
    _plain(str(root / "plain"))


def _strings(spark: SparkSession, path: str) -> None:
    """All three keys are texts; an item of each state, a refused one, and weights."""
    queue = _created(
        spark,
        path,
        "path string, tenant string, folder string",
        QueueConfig(
            dedup_key="path",
            fair_key="tenant",
            group_key="folder",
            weights={"ann": 2.0},
            lease=_LEASE,
            max_attempts=1,
            retry=RetryPolicy(backoff="fixed", delay=timedelta(minutes=1)),
        ),
    )
    rows: list[Row] = [
        ("a1", "ann", "x"),
        ("a2", "ann", "x"),
        ("a3", "ann", "y"),
        ("b1", "bob", "z"),
        ("a1", "ann", "x"),
        ("c1", "cid", None),
    ]
    _enqueue(spark, queue, rows)
    queue.claim(1).ack()
    queue.claim(1).nack("broken")
    queue.cancel("path = 'c1'")
    queue.claim(1, worker_id="gone")


def _readers(spark: SparkSession, path: str) -> None:
    """Two readers, each with a position of its own."""
    queue = _created(spark, path, "path string", QueueConfig(dedup_key="path", lease=_LEASE))
    _enqueue(spark, queue, [("a",), ("b",), ("c",)])
    queue.reader("first").claim(2).ack()
    queue.reader("second", start="beginning").claim(1).nack("later")


def _numbers(spark: SparkSession, path: str) -> None:
    """Keys that are no texts, but have always had one text only."""
    config = QueueConfig(dedup_key="id", fair_key="day", group_key="price", lease=_LEASE)
    queue = _created(spark, path, "id bigint, day date, price decimal(10,2)", config)
    line = "SELECT 7L AS id, date'2026-11-01' AS day, cast('1.5' AS decimal(10,2)) AS price"
    queue.enqueue(spark.sql(line))


def _times(spark: SparkSession, path: str) -> None:
    """A key that is a time, written as the session's zone has it."""
    queue = _created(spark, path, "at timestamp", QueueConfig(dedup_key="at", lease=_LEASE))
    half_past_five = datetime(2026, 11, 1, 5, 30, tzinfo=timezone.utc)
    _enqueue(spark, queue, [(half_past_five,)])


def _structs(spark: SparkSession, path: str) -> None:
    """A key of two columns, of which it is not told where one ends."""
    config = QueueConfig(dedup_key="struct(x, y)", lease=_LEASE)
    queue = _created(spark, path, "x string, y string", config)
    _enqueue(spark, queue, [("a, b", "c")])


def _plain(path: str) -> None:
    """Made without Spark: a group of which one failed and waits, a front's lease, a dead letter."""
    config = QueueConfig(
        dedup_key="path",
        group_key="folder",
        lease=_LEASE,
        max_attempts=2,
        retry=RetryPolicy(backoff="fixed", delay=timedelta(minutes=1)),
    )
    queue = LocalQueue.create(path, "path string, folder string", config, clock=ManualClock())
    paths = ("a1", "x"), ("a2", "x"), ("b1", "y"), ("c1", None), ("a1", "x")
    queue.enqueue([{"path": path, "folder": folder} for path, folder in paths])
    queue.claim(1).nack("broken")
    queue.claim(1, claim_id="held", worker_id="gone")
    queue.claim(1, claim_id="dead").dead("no such file")


def _created(spark: SparkSession, path: str, schema: str, config: QueueConfig) -> DeltaQueue:
    return DeltaQueue.create(spark, path, schema, config, clock=ManualClock())


def _enqueue(spark: SparkSession, queue: DeltaQueue, rows: list[Row]) -> None:
    queue.enqueue(spark.createDataFrame(rows, queue.schema).coalesce(1))


def pack(root: Path, archive: Path) -> None:
    """Write all files below a directory into an archive, without checksums and lock files."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_LZMA) as packed:
        for file in sorted(root.rglob("*")):
            if file.is_file() and not file.name.endswith(".crc") and file.suffix != ".lock":
                entry = zipfile.ZipInfo(str(file.relative_to(root)), _MADE)
                entry.compress_type = zipfile.ZIP_LZMA
                packed.writestr(entry, file.read_bytes())


if __name__ == "__main__":
    main(sys.argv[1])
