"""Queries whose checkpoints an earlier release made, and the script that made them.

``python -m tests.streaming.golden`` writes ``tests/data/streams-of-format-2.zip``, with the code of
that format.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_queue.session import local_session
from spark_queue.streaming import distinct_in_flight, fair_rounds, one_active_per_group
from tests.streaming.feeds import BUCKETS, Feed, Sink

GOLDEN = Path(__file__).parents[1] / "data" / "streams-of-format-2.zip"

#: Where the golden checkpoints were made: it is in their texts.
HERE = "/tmp/golden-streams"  # noqa: S108 - a name in files

ROWS = "path string, at long, made timestamp, round double, outcome string"


class Query:
    """One of the queries, in a folder of its own."""

    def __init__(self, spark: SparkSession, root: str, name: str) -> None:
        self._name = name
        self._sink = Sink(spark, f"{root}/{name}")
        self._feeds = [Feed(spark, f"{root}/{name}/{what}/in", ROWS) for what in ("come", "done")]

    def run(
        self, come: Sequence[tuple[str, int]], done: Sequence[tuple[Any, ...]] = ()
    ) -> set[Any]:
        """Put rows in, run the query to its end, and return what came out so far."""
        for feed, rows in zip(self._feeds, (come, done), strict=True):
            names = ("path", "at", "round", "outcome")
            plain = [dict(zip(names, row, strict=False)) for row in rows]
            made = [{**row, "made": f"2024-01-01T00:{row['at']:02d}:00Z"} for row in plain]
            if made:
                feed.put(made)
        self._sink.run(self._stream(*[feed.stream for feed in self._feeds]))
        said = {"serial": "run", "fair": "round"}.get(self._name, "path")
        return {(row["at"], row[said]) for row in self._sink.rows()}

    def _stream(self, come: DataFrame, done: DataFrame) -> DataFrame:
        if self._name == "distinct":
            return distinct_in_flight(come, done, "path", order_by="at", buckets=BUCKETS)
        if self._name == "fair":
            rows = come.drop("round")
            return fair_rounds(rows, "path", order_by="at", served=done, buckets=BUCKETS)
        return one_active_per_group(
            come.drop("outcome"),
            done,
            "path",
            "at",
            at="made",
            time_out=timedelta(hours=1),
            buckets=BUCKETS,
        )


#: What each query was given before its checkpoint was kept, and what it had let out by then.
BEFORE: dict[str, tuple[Any, ...]] = {
    "distinct": ([("a", 1), ("a", 2), ("b", 3)], [("b", 4), ("x", 4)]),
    "fair": ([("big", n) for n in range(1, 6)] + [("small", 6)], [("any", 0, 2.0)]),
    "serial": ([("g", n) for n in range(1, 9)] + [("h", 9), ("h", 10)], [("g", 1), ("h", 11)]),
}


def main() -> None:
    """Make the checkpoints, with the outputs beside them."""
    spark = local_session(master="local[1]")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    shutil.rmtree(HERE, ignore_errors=True)
    for name, given in BEFORE.items():
        print(name, Query(spark, HERE, name).run(*given))  # noqa: T201 - a script
    kept = [path for path in sorted(Path(HERE).rglob("*")) if path.is_file()]
    with zipfile.ZipFile(GOLDEN, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in kept:
            # Without the sums of Hadoop: where the queries are is replaced in texts.
            if not path.name.endswith(".crc"):
                entry = zipfile.ZipInfo(str(path.relative_to(HERE)), (2026, 1, 1, 0, 0, 0))
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
