"""Measure what a micro-batch of 1,000 rows costs by what the operators on streams have in state.

A first micro-batch fills the state: with many open groups or keys, or with one deep group. Then
come micro-batches of 1,000 rows, half of them completions. Each figure is the time of one of them
over that of one with little in the state, in the same run; beside them is what an open group takes
on disk. ``rate`` measures rows a second of large micro-batches with few keys; ``--before`` names a
checkout to compare them with. At full size this takes some ten minutes on two cores.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from pyspark.sql import DataFrame, SparkSession, functions as F

import streaming
from place import session_and_folder
from report import Figure, at_least, at_most, measure
from spark_queue.streaming import (
    STREAMING_CONF,
    distinct_in_flight,
    fair_rounds,
    one_active_per_group,
)

SCHEMA = "grp string, at long, body string, round double"

#: What is in state where that is little.
FEW = 1_000

#: Rows of each stream in a micro-batch that is measured.
_HALF = 500

#: Micro-batches that are measured; the first two are not counted.
_BATCHES = 8

Operator: TypeAlias = Callable[[DataFrame, DataFrame], DataFrame]

OPERATORS: dict[str, Operator] = {
    "one_active": lambda come, done: one_active_per_group(come.drop("round"), done, "grp", "at"),
    "distinct": lambda come, done: distinct_in_flight(come, done, "grp", order_by="at"),
    "fair": lambda come, done: fair_rounds(come.drop("round"), "grp", order_by="at", served=done),
}

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Bench:
    """Where to measure, and with how much in state."""

    spark: SparkSession
    root: Path
    many: int
    before: Path | None

    def run(self, operator: Operator, rows: int, group: str) -> tuple[float, float]:
        """Return the seconds of a micro-batch with so many rows in state, and the bytes of each.

        ``group`` says as SQL which group a row is in; ``{}`` stands for the place of its first row.
        """
        here = self.root / uuid.uuid4().hex
        come, done = here / "come", here / "done"
        self._put(come, 0, range(rows), group)
        self._put(done, 0, range(1), "'nobody'")
        self._seconds(operator, here)
        size = sum(path.stat().st_size for path in here.glob("checkpoint/state/**/*.zip"))
        size += sum(path.stat().st_size for path in here.glob("checkpoint/state/**/*.sst"))
        step = rows // (_BATCHES * _HALF) or 1
        for batch in range(1, _BATCHES + 1):
            first = (batch - 1) * _HALF
            self._put(done, batch, range(first, first + _HALF), group, f"id * {step} % {rows}")
            new = range(rows + first, rows + first + _HALF)
            self._put(come, batch, new, group.replace("{}", f"pmod(xxhash64(at), {rows})"))
        seconds = self._seconds(operator, here)
        shutil.rmtree(here)
        return statistics.median(seconds[2:]), size / rows

    def _put(self, folder: Path, batch: int, ids: range, group: str, at: str = "id") -> None:
        """Write a file of rows, with their place and their group as SQL."""
        frame = self.spark.range(ids.start, ids.stop).select(F.expr(at).alias("at"))
        frame = frame.select(
            F.expr(group.replace("{}", "at")).alias("grp"),
            "at",
            F.concat(F.lit("/landing/files/"), "at").alias("body"),
            F.lit(0.5).alias("round"),
        )
        part = self.root / "part"
        frame.coalesce(1).write.parquet(str(part))
        folder.mkdir(parents=True, exist_ok=True)
        (file,) = part.glob("part-*.parquet")
        place = folder / f"{batch:04d}.parquet"
        file.rename(place)
        os.utime(place, (batch + 1, batch + 1))
        shutil.rmtree(part)

    def _seconds(self, operator: Operator, here: Path) -> list[float]:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        streams = [reader.parquet(str(here / what)) for what in ("come", "done")]
        writer = operator(*streams).writeStream.format("noop").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(here / "checkpoint")).start()
        query.awaitTermination()
        progress = [p for p in query.recentProgress if p.numInputRows]
        return [p.durationMs["triggerExecution"] / 1_000 for p in progress]


def open_keys(bench: Bench) -> Iterable[Figure]:
    """Compare many open groups, open keys, and keys with rounds to come, with few."""
    for name, operator in OPERATORS.items():
        few, _ = bench.run(operator, FEW, "concat('g', {})")
        many, size = bench.run(operator, bench.many, "concat('g', {})")
        yield _times(f"open.{name}", many, few)
        if name == "one_active":
            yield Figure("open.bytes", size, at_most(200), "bytes of a group", detail="on disk")


def deep(bench: Bench) -> Iterable[Figure]:
    """Compare one group in which many rows wait with one in which few do."""
    few, _ = bench.run(OPERATORS["one_active"], FEW, "'deep'")
    many, _ = bench.run(OPERATORS["one_active"], bench.many, "'deep'")
    yield _times("deep.one_active", many, few)


def rate(bench: Bench) -> Iterable[Figure]:
    """Measure rows a second with few keys, and compare them with those of another checkout."""
    before = {} if bench.before is None else _rates_of(bench.before)
    root = bench.root / "rate"
    root.mkdir()
    large = streaming.Bench(bench.spark, root, rows=100_000, batches=6)
    for name, (operator, _) in streaming.OPERATORS.items():
        speed = large.speed(operator(large, FEW))
        yield Figure(f"rate.{name}", speed, None, "rows/s")
        if before:
            yield Figure(f"rate.{name}.over_before", speed / before[f"rate.{name}"], at_least(0.9))


def _rates_of(checkout: Path) -> dict[str, float]:
    job = [sys.executable, __file__, "--only", "rate", "--json"]
    env = {**os.environ, "PYTHONPATH": str(checkout)}
    out = subprocess.run(job, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603 - this job
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {line["name"]: line["value"] for line in lines}


def _times(name: str, many: float, few: float) -> Figure:
    return Figure(name, many / few, at_most(2), detail=f"{many:.2f} s, {few:.2f} s")


SECTIONS: dict[str, Callable[[Bench], Iterable[Figure]]] = {
    "open": open_keys,
    "deep": deep,
    "rate": rate,
}


@app.command(help=__doc__)
def main(
    only: Annotated[list[str] | None, typer.Option(help="Sections to run; all of them.")] = None,
    many: Annotated[int, typer.Option(min=1_000, help="What is in state.")] = 1_000_000,
    place: Annotated[Path | None, typer.Option(help="Where to put files.")] = None,
    before: Annotated[Path | None, typer.Option(help="A checkout to compare with.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="No table at the end.")] = False,
    strict: Annotated[bool, typer.Option(help="Fail when a target is missed.")] = False,
) -> None:
    """Measure, print a JSON line for each figure, and a table."""
    with session_and_folder("stream_state", place, **STREAMING_CONF) as (spark, root):
        bench = Bench(spark, root, many, before)
        sections = {name: (lambda run=run: run(bench)) for name, run in SECTIONS.items()}
        code = measure(sections, only, as_json=as_json, strict=strict)
    sys.exit(code)


if __name__ == "__main__":
    app()
