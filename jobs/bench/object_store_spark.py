"""Time small steps of a Spark session on an object store, over Spark's own append there.

Both go through one proxy that takes its time. A median of many: an append of a row to a plain Delta
table by s3a, an enqueue of a frame of one row, a claim, and its ack. The jars of ``hadoop-aws``
come from Maven Central by the first start.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import pyspark
import typer
from pyspark.sql import SparkSession

from object_store import options_of, served, shaken
from spark_queue import DeltaQueue, local_session
from spark_queue.spark import spark_enqueue

app = typer.Typer(add_completion=False)

_SCHEMA = "k string, tenant string"


def session(port: int) -> SparkSession:
    """Start a session that reads the store behind a port by s3a."""
    version = _hadoop_version()
    s3a = "spark.hadoop.fs.s3a"
    conf = {
        "spark.jars.packages": f"org.apache.hadoop:hadoop-aws:{version}",
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        f"{s3a}.endpoint": f"http://127.0.0.1:{port}",
        f"{s3a}.endpoint.region": "us-east-1",
        f"{s3a}.path.style.access": "true",
        f"{s3a}.connection.ssl.enabled": "false",
        f"{s3a}.access.key": "bench",
        f"{s3a}.secret.key": "bench",
    }
    return local_session("object-store", quiet=True, **conf)


def _hadoop_version() -> str:
    """Return the version of Hadoop that Spark brings."""
    (jar,) = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    return jar.stem.rpartition("-")[2]


class Opened:
    """A queue in a session of Spark, asked as one without; some frames are planned by Spark."""

    def __init__(self, queue: DeltaQueue, spark: SparkSession) -> None:
        self._queue, self._spark = queue, spark

    def enqueue(self, rows: list[dict[str, str]]) -> Any:
        """Enqueue rows as a frame; three or more are planned as millions are."""
        return self._queue.enqueue(self._spark.createDataFrame(rows, _SCHEMA))

    def claim(self, limit: int, **options: Any) -> Any:
        """Claim items, which are then in ``rows``, too."""
        claim = self._queue.claim(limit, **options)
        items: Any = claim
        items.rows = claim.items.collect() if claim.count else []
        return items


def opened(place: str, port: int) -> Opened:
    """Open a queue in a session of this process."""
    spark_enqueue._MANY = 2  # noqa: SLF001 - of a benchmark
    spark = session(port)
    return Opened(DeltaQueue.open(spark, place, storage=options_of(port)), spark)


@app.command()
def main(
    delay: Annotated[int, typer.Option(help="Milliseconds that a request takes longer.")] = 30,
    rounds: Annotated[int, typer.Option(help="Steps of each kind.")] = 30,
    rows: Annotated[int, typer.Option(help="Rows of a large frame; 0 for none.")] = 0,
) -> None:
    """Measure, and print medians and ratios."""
    faults = {"lost": 0.0, "refused": 0.0, "delay": delay / 1000, "seed": 0}
    with (
        tempfile.TemporaryDirectory() as place,
        served(place) as store,
        shaken(store, **faults) as port,
    ):
        took = _measured(session(port), port, rounds)
        if rows:
            took |= _measured_large(session(port), port, rows)
    plain = took["append"]
    for name, seconds in took.items():
        typer.echo(f"{name:16} {seconds * 1000:8.0f} ms  {seconds / plain:5.2f}")


def _measured(spark: SparkSession, port: int, rounds: int) -> dict[str, float]:
    """Return the median seconds of each kind of step; the first ones are not counted."""
    queue = DeltaQueue.create(spark, "s3a://bench/measured", _SCHEMA, storage=options_of(port))
    took: dict[str, list[float]] = {"append": [], "enqueue": [], "claim": [], "ack": []}
    for number in range(rounds + 3):
        row = spark.createDataFrame([(str(number), "t")], _SCHEMA)
        writer = row.write.format("delta").mode("append")
        _timed(took["append"], lambda: writer.save("s3a://bench/plain"))  # noqa: B023
        _timed(took["enqueue"], lambda: queue.enqueue(row))  # noqa: B023
        claim = _timed(took["claim"], lambda: queue.claim(1))
        _timed(took["ack"], claim.ack)
    return {name: median(seconds[3:]) for name, seconds in took.items()}


def _measured_large(spark: SparkSession, port: int, rows: int) -> dict[str, float]:
    """Return the seconds of a frame of many rows: appended plainly, and enqueued."""
    frame = spark.range(rows).selectExpr("cast(id AS string) AS k", "'t' AS tenant")
    queue = DeltaQueue.create(spark, "s3a://bench/large", _SCHEMA, storage=options_of(port))
    took: dict[str, list[float]] = {"large append": [], "large enqueue": []}
    for _ in range(3):
        writer = frame.write.format("delta").mode("append")
        _timed(took["large append"], lambda: writer.save("s3a://bench/plain-large"))  # noqa: B023
        _timed(took["large enqueue"], lambda: queue.enqueue(frame))
    return {name: median(seconds) for name, seconds in took.items()}


def _timed(into: list[float], act: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    done = act()
    into.append(time.perf_counter() - began)
    return done


if __name__ == "__main__":
    app()
