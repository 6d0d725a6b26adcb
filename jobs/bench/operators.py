"""Measure the batch operators beside the bare plan that a user would write, in the same run.

Frames of four columns, stored as Parquet. The driver may take no more than a megabyte of results: a
plan that brought rows there would fail. At full size this takes some ten minutes on two cores.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession, Window, functions as F

from place import session_and_folder
from report import Figure, at_most, measure, ratio_figure, rounds, seconds
from spark_queue.operators import distinct, fair_rank, fair_take, serial_heads

#: What a plan may cost beside the bare one.
BARE = at_most(1.25)

#: A driver that may take no more than a megabyte: a plan that brought rows there would fail.
SETTINGS = {"spark.driver.maxResultSize": "1m", "spark.sql.shuffle.partitions": "8"}

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Bench:
    """Where to measure, and with how many rows."""

    spark: SparkSession
    root: Path
    rows: int
    repeats: int

    def uniform(self, keys: int = 1_000) -> DataFrame:
        """Return rows whose keys are all as frequent."""
        return self._stored(f"uniform-{keys}", F.pmod(F.xxhash64("at"), F.lit(keys)))

    def skewed(self, tenths: int = 9) -> DataFrame:
        """Return rows nine tenths of which, or so many, have one key."""
        hot = F.pmod(F.xxhash64("at", F.lit(1)), F.lit(10)) < tenths
        others = F.pmod(F.xxhash64("at"), F.lit(1_000))
        return self._stored(f"skewed-{tenths}", F.when(hot, F.lit(0)).otherwise(others))

    def compared(self, contenders: Mapping[str, DataFrame]) -> dict[str, list[float]]:
        """Run plans in turns, and return the seconds of each."""
        timed: dict[str, Callable[[], float]] = {
            name: lambda frame=frame: _ran(frame)  # type: ignore[misc]
            for name, frame in contenders.items()
        }
        for warm in timed.values():
            warm()
        return rounds(timed, self.repeats)

    def _stored(self, name: str, key: object) -> DataFrame:
        path = str(self.root / name)
        if not Path(path).exists():
            frame = self.spark.range(self.rows).withColumnRenamed("id", "at")
            frame.select(
                F.concat(F.lit("key-"), F.lit(key).cast("string")).alias("tenant"),
                "at",
                F.concat(F.lit("/landing/files/"), F.col("at").cast("string")).alias("path"),
                (F.rand(1) * 1e6).cast("int").alias("size"),
            ).orderBy(F.rand(2)).write.parquet(path)
        return self.spark.read.parquet(path)


def _ran(frame: DataFrame) -> float:
    return seconds(lambda: frame.write.format("noop").mode("overwrite").save())


def _place(df: DataFrame) -> DataFrame:
    place = F.row_number().over(Window.partitionBy("tenant").orderBy("at"))
    return df.withColumn("place", place)


def _bare_first(df: DataFrame) -> DataFrame:
    return _place(df).where("place = 1").drop("place")


def plain(bench: Bench) -> Iterable[Figure]:
    """Compare each operator with the window or the aggregate that stands in its place."""
    df = bench.uniform()
    unique = F.col("path")
    by_path = F.row_number().over(Window.partitionBy(unique).orderBy("at"))
    times = bench.compared(
        {
            "bare rank": _place(df),
            "fair_rank": fair_rank(df, "tenant", order_by="at"),
            "bare first": _bare_first(df),
            "serial_heads": serial_heads(df, "tenant", order_by="at"),
            "distinct": distinct(df, "tenant", order_by="at"),
            "bare first of many": df.withColumn("n", by_path).where("n = 1").drop("n"),
            "distinct of many": distinct(df, "path", order_by="at"),
            "bare take": _place(df).orderBy("place", "at").limit(10_000),
            "fair_take": fair_take(df, 10_000, "tenant", order_by="at"),
        }
    )
    pairs = {
        "fair_rank": "bare rank",
        "serial_heads": "bare first",
        "distinct": "bare first",
        "distinct of many": "bare first of many",
        "fair_take": "bare take",
    }
    for name, bare in pairs.items():
        yield _figure(f"plain.{name.replace(' ', '_')}", times, name, bare, BARE)


def skew(bench: Bench) -> Iterable[Figure]:
    """Rank a frame nine tenths of which are one key's, beside uniform keys and the bare plan."""
    even, uneven = bench.uniform(), bench.skewed()
    times = bench.compared(
        {
            "bare": _place(even),
            "uniform": fair_rank(even, "tenant", order_by="at", skewed=True),
            "skewed": fair_rank(uneven, "tenant", order_by="at", skewed=True),
            "not cut": fair_rank(uneven, "tenant", order_by="at"),
        }
    )
    yield _figure("skew.beside_uniform", times, "skewed", "uniform", at_most(1.3))
    yield _figure("skew.beside_bare_uniform", times, "skewed", "bare", at_most(1.6))
    yield _figure("skew.not_cut", times, "not cut", "bare", None)
    for name, operator in (("serial_heads", serial_heads), ("distinct", distinct)):
        times = bench.compared(
            {
                "uniform": operator(even, "tenant", order_by="at"),
                "skewed": operator(uneven, "tenant", order_by="at"),
            }
        )
        yield _figure(f"skew.{name}", times, "skewed", "uniform", at_most(1.3))


def small(bench: Bench) -> Iterable[Figure]:
    """Rank a million rows, half of one key's, with and without ``skewed``."""
    half = replace(bench, root=bench.root / "small", rows=min(1_000_000, bench.rows)).skewed(5)
    times = bench.compared(
        {
            "plain": fair_rank(half, "tenant", order_by="at"),
            "skewed": fair_rank(half, "tenant", order_by="at", skewed=True),
        }
    )
    yield _figure("small.skewed", times, "skewed", "plain", at_most(1.0))


def cardinality(bench: Bench) -> Iterable[Figure]:
    """Rank a frame of a million keys beside one of a thousand."""
    few, many = bench.uniform(), bench.uniform(min(1_000_000, bench.rows // 10))
    for name, operator in (
        ("fair_rank", fair_rank),
        ("serial_heads", serial_heads),
        ("distinct", distinct),
    ):
        times = bench.compared(
            {
                "few": operator(few, "tenant", order_by="at"),
                "many": operator(many, "tenant", order_by="at"),
                "bare few": _place(few),
                "bare many": _place(many),
            }
        )
        yield _figure(f"keys.{name}", times, "many", "few", at_most(1.5))
        yield _figure(f"keys.{name}.bare", times, "bare many", "bare few", None)


def _figure(
    name: str, times: dict[str, list[float]], over: str, under: str, target: object
) -> Figure:
    detail = f"{over} {min(times[over]):.2f} s, {under} {min(times[under]):.2f} s"
    return ratio_figure(name, times[over], times[under], target, detail)  # type: ignore[arg-type]


SECTIONS: dict[str, Callable[[Bench], Iterable[Figure]]] = {
    "plain": plain,
    "skew": skew,
    "small": small,
    "cardinality": cardinality,
}


@app.command(help=__doc__)
def main(
    only: Annotated[list[str] | None, typer.Option(help="Sections to run; all of them.")] = None,
    rows: Annotated[int, typer.Option(min=1_000, help="Rows of each frame.")] = 10_000_000,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of each comparison.")] = 3,
    place: Annotated[Path | None, typer.Option(help="Where to put the frames.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="No table at the end.")] = False,
    strict: Annotated[bool, typer.Option(help="Fail when a target is missed.")] = False,
) -> None:
    """Measure, print a JSON line for each figure, and a table."""
    with session_and_folder("operators", place, **SETTINGS) as (spark, root):
        bench = Bench(spark, root, rows, repeats)
        sections = {name: (lambda run=run: run(bench)) for name, run in SECTIONS.items()}
        code = measure(sections, only, as_json=as_json, strict=strict)
    sys.exit(code)


if __name__ == "__main__":
    app()
