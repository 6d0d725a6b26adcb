"""Measure the operators on streams: rows a second, beside Spark's own and the plain way.

Each query reads 100,000 rows a micro-batch, a file for each core, into a sink that drops them. The
ceiling is Spark's own ``dropDuplicates`` or an aggregate; the plain way is a processor with a value
of state for each group. At full size this takes some fifteen minutes on two cores.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import DataFrame, Row, SparkSession, functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from place import session_and_folder
from report import Figure, at_least, at_most, measure
from spark_queue.streaming import (
    STREAMING_CONF,
    distinct_in_flight,
    fair_rounds,
    one_active_per_group,
)

SCHEMA = "grp string, at long, body string"

GROUPS = (1_000, 100_000)

#: A file for each core: what lands in a directory comes in many.
_FILES = 2

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Bench:
    """Where to measure, and with how many rows and micro-batches."""

    spark: SparkSession
    root: Path
    rows: int
    batches: int

    def arrivals(self, groups: int, share: float = 1.0) -> DataFrame:
        """Return a stream of rows spread over groups, a share of a batch each time."""
        rows = int(self.rows * share)
        return self._stream(f"arrivals-{groups}-{rows}", groups, rows, 0)

    def completions(self, groups: int, share: float) -> DataFrame:
        """Return a stream of completions of the rows of the batch before."""
        rows = int(self.rows * share)
        return self._stream(f"completions-{groups}-{rows}", groups, rows, -rows).select("grp", "at")

    def _stream(self, name: str, groups: int, rows: int, offset: int) -> DataFrame:
        folder = self.root / name
        if not folder.exists():
            for batch in range(self.batches):
                start = batch * rows + offset
                at = F.col("id")
                frame = self.spark.range(start, start + rows, numPartitions=_FILES).select(
                    F.concat(
                        F.lit("g"), F.pmod(F.xxhash64(at), F.lit(groups)).cast("string")
                    ).alias("grp"),
                    at.alias("at"),
                    F.concat(F.lit("/landing/files/"), at.cast("string")).alias("body"),
                )
                part = self.root / "part"
                frame.write.parquet(str(part))
                folder.mkdir(exist_ok=True)
                for number, file in enumerate(sorted(part.glob("part-*.parquet"))):
                    place = folder / f"{batch:04d}-{number}.parquet"
                    file.rename(place)
                    os.utime(place, (batch * 10 + number, batch * 10 + number))
                shutil.rmtree(part)
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", _FILES)
        return reader.parquet(str(folder))

    def seconds(self, df: DataFrame, mode: str = "append") -> list[float]:
        """Run a stream to its end, and return the seconds of each micro-batch that had rows."""
        writer = df.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
        checkpoint = self.root / f"checkpoint-{uuid.uuid4().hex}"
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        query.awaitTermination()
        progress = [p for p in query.recentProgress if p.numInputRows]
        shutil.rmtree(checkpoint, ignore_errors=True)
        return [p.durationMs["triggerExecution"] / 1_000 for p in progress]

    def speed(self, df: DataFrame, rows: int | None = None, mode: str = "append") -> float:
        """Return rows a second of a stream, warm: without its first two micro-batches."""
        return (rows or self.rows) / statistics.median(self.seconds(df, mode)[2:])


class _PerGroup(StatefulProcessor):
    """The plain way: a value of state for each group, which says whether its key was seen."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._seen = handle.getValueState("seen", "at long")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's name
    ) -> Iterator[Row]:
        first = min(row["at"] for row in rows)
        if self._seen.get() is None:
            self._seen.update((first,))
            yield Row(grp=key[0], at=first)

    def close(self) -> None:
        pass


class _ActivePerGroup(StatefulProcessor):
    """The plain way to one active row a group: its place, and a list of what waits."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._active = handle.getValueState("active", "at long")
        self._waiting = handle.getListState("waiting", "at long, body string")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's name
    ) -> Iterator[Row]:
        found = sorted(rows, key=lambda row: (row["body"] is not None, row["at"]))
        stored = self._active.get()
        active = None if stored is None else stored[0]
        waiting = list(self._waiting.get())
        for row in found:
            if row["body"] is not None:
                waiting.append((row["at"], row["body"]))
            elif row["at"] == active:
                active = None
        if active is None and waiting:
            active, _ = waiting.pop(0)
            yield Row(grp=key[0], at=active)
        if waiting:
            self._waiting.put(waiting)
        else:
            self._waiting.clear()
        if active is None:
            self._active.clear()
        else:
            self._active.update((active,))

    def close(self) -> None:
        pass


def _plain(df: DataFrame, processor: StatefulProcessor) -> DataFrame:
    return df.groupBy("grp").transformWithState(
        statefulProcessor=processor,
        outputStructType="grp string, at long",
        outputMode="append",
        timeMode="None",
    )


def _plain_active(bench: Bench, groups: int) -> DataFrame:
    done = bench.completions(groups, 0.5).withColumn("body", F.lit(None).cast("string"))
    return _plain(bench.arrivals(groups, 0.5).unionByName(done), _ActivePerGroup())


def _distinct(bench: Bench, groups: int) -> DataFrame:
    half = bench.arrivals(groups, 0.5), bench.completions(groups, 0.5)
    return distinct_in_flight(*half, "grp", order_by="at")


def _fair(bench: Bench, groups: int) -> DataFrame:
    return fair_rounds(bench.arrivals(groups), "grp", order_by="at")


def _fair_served(bench: Bench, groups: int) -> DataFrame:
    served = bench.arrivals(groups, 0.001).select((F.col("at") / groups).alias("round"))
    return fair_rounds(bench.arrivals(groups), "grp", order_by="at", served=served)


def _serial(bench: Bench, groups: int) -> DataFrame:
    half = bench.arrivals(groups, 0.5), bench.completions(groups, 0.5)
    return one_active_per_group(*half, "grp", "at")


OPERATORS: dict[str, tuple[Callable[[Bench, int], DataFrame], float]] = {
    "distinct": (_distinct, 80_000),
    "fair": (_fair, 80_000),
    "fair_served": (_fair_served, 80_000),
    "one_active": (_serial, 30_000),
}


def throughput(bench: Bench) -> Iterable[Figure]:
    """Compare the operators with the ceiling and with the plain way, at few and at many groups."""
    # Spark's own operators cannot keep their state as Avro.
    native = bench.spark.newSession()
    native.conf.set("spark.sql.streaming.stateStore.encodingFormat", "unsaferow")
    ceiling = replace(bench, spark=native)
    for groups in GROUPS:
        plain = bench.speed(_plain(bench.arrivals(groups), _PerGroup()))
        yield _rate(f"{groups}.plain", plain, None)
        active = bench.speed(_plain_active(bench, groups))
        yield _rate(f"{groups}.plain_active", active, None)
        df = ceiling.arrivals(groups)
        yield _rate(f"{groups}.drop_duplicates", bench.speed(df.dropDuplicates(["grp"])), None)
        counted = bench.speed(df.groupBy("grp").agg(F.min_by("body", "at")), mode="update")
        yield _rate(f"{groups}.aggregate", counted, None)
        for name, (operator, target) in OPERATORS.items():
            found = bench.speed(operator(bench, groups))
            yield _rate(f"{groups}.{name}", found, target)
            beside = active if name == "one_active" else plain
            detail = f"{found:,.0f} rows/s beside {beside:,.0f} of state for each group"
            wanted = at_least(10) if groups == max(GROUPS) else None
            yield Figure(f"{groups}.{name}.beside_plain", found / beside, wanted, detail=detail)


def trickle(bench: Bench) -> Iterable[Figure]:
    """Compare a micro-batch of 100 rows with one in which nothing reaches the state."""
    small = Bench(bench.spark, bench.root / "trickle", 200, 12)
    small.root.mkdir()
    for name, (operator, _) in OPERATORS.items():
        some = small.seconds(operator(small, 1_000))[3:]
        nothing = small.seconds(_nothing(small))[3:]
        value = statistics.median(some) / statistics.median(nothing)
        detail = f"{statistics.median(some):.2f} s, {statistics.median(nothing):.2f} s"
        yield Figure(f"trickle.{name}", value, at_most(1.5), detail=detail)


def state(bench: Bench) -> Iterable[Figure]:
    """Compare the state after 100 micro-batches of ever new keys with that after ten."""
    for name, operator in (("distinct", _distinct), ("fair", _fair), ("one_active", _serial)):
        sizes = []
        for batches in (10, 100):
            small = Bench(bench.spark, bench.root / f"state-{name}-{batches}", 400, batches)
            small.root.mkdir()
            # As many groups as rows there ever are: few come back.
            writer = operator(small, 400 * batches).writeStream.format("noop")
            checkpoint = str(small.root / "checkpoint")
            writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            writer.start().awaitTermination()
            sizes.append(
                sum(
                    _stored_bytes(bench.spark, checkpoint, *names)
                    for names in (("bucket", "value"), ("pages", "user_map_value"))
                )
            )
        detail = f"{sizes[1]:,} bytes, {sizes[0]:,} bytes"
        yield Figure(f"state.{name}", sizes[1] / sizes[0], at_most(1.5), detail=detail)


def _stored_bytes(spark: SparkSession, checkpoint: str, variable: str, value: str) -> int:
    stored = spark.read.format("statestore").option("stateVarName", variable).load(checkpoint)
    size = F.length(f"{value}.body") + F.coalesce(F.length(f"{value}.rows"), F.lit(0))
    return int(stored.agg(F.coalesce(F.sum(size), F.lit(0))).collect()[0][0])


def _nothing(bench: Bench) -> DataFrame:
    # As two streams: what is read and united costs both of them the same.
    none = bench.arrivals(1_000, 0.5).where("at < -1e9")
    return distinct_in_flight(none, bench.completions(1_000, 0.5).where("at < -1e9"), "grp")


def _rate(name: str, value: float, target: float | None) -> Figure:
    return Figure(name, value, None if target is None else at_least(target), "rows/s")


SECTIONS: dict[str, Callable[[Bench], Iterable[Figure]]] = {
    "throughput": throughput,
    "trickle": trickle,
    "state": state,
}


@app.command(help=__doc__)
def main(
    only: Annotated[list[str] | None, typer.Option(help="Sections to run; all of them.")] = None,
    rows: Annotated[int, typer.Option(min=1_000, help="Rows of a micro-batch.")] = 100_000,
    batches: Annotated[int, typer.Option(min=4, help="Micro-batches of a query.")] = 6,
    place: Annotated[Path | None, typer.Option(help="Where to put files.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="No table at the end.")] = False,
    strict: Annotated[bool, typer.Option(help="Fail when a target is missed.")] = False,
) -> None:
    """Measure, print a JSON line for each figure, and a table."""
    with session_and_folder("streaming", place, **STREAMING_CONF) as (spark, root):
        bench = Bench(spark, root, rows, batches)
        sections = {name: (lambda run=run: run(bench)) for name, run in SECTIONS.items()}
        code = measure(sections, only, as_json=as_json, strict=strict)
    sys.exit(code)


if __name__ == "__main__":
    app()
