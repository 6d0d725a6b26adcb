"""A queue of a hundred million items with Spark: what each verb takes, over a tenth of them.

Items are distinct, in turns of a thousand keys, and serial per group. Each verb runs in a process
of its own, and what it took is kept in the folder: a run that was stopped goes on where it was, by
the same command. Claims are of a hundredth of the items, in both queues.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from report import Figure, at_most, emit, exit_code, table
from small_steps import Meter, servers, worked_below
from spark_queue import DeltaQueue, QueueConfig
from spark_queue.session import local_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from spark_queue.processing.loop import ProcessResult

app = typer.Typer(add_completion=False)

CONFIG = QueueConfig(dedup_key="id", fair_key="tenant", group_key="grp")

#: The columns of an item, by its number.
COLUMNS = ("id", "concat('t', id % 1000) AS tenant", "concat('g', id div 3) AS grp")

#: The two queues of a run, the small one first, and what part of all items each has.
QUEUES = {"tenth": 10, "whole": 1}

SCHEMA = "id long, tenant string, grp string"

#: Items of an enqueue over those of a claim, and claims that are timed.
_PART, _CLAIMS = 2, 3

#: Bytes of the disk that an item takes until all is done, both queues and what Spark spills.
_BYTES = 400

#: Of the disk, what has to stay free.
_ROOM = 0.2

#: The memory of Spark's driver, and the most that it, or Python beside it, should take.
_HEAP, _GIB = "3g", at_most(4.0)

#: Over so many parts Spark spreads what it sorts: each fits into the heap.
_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class Bench:
    """A queue, how large it is to be, and what its verbs take."""

    spark: SparkSession
    queue: DeltaQueue
    items: int
    claim: int
    meter: Meter

    def time(self, name: str, verb: Callable[[], Any]) -> Any:
        """Do something, and keep the seconds that it takes."""
        return self.meter.time(name, verb)


Verb = Callable[[Bench], None]


def enqueue(bench: Bench, part: int) -> None:
    """Enqueue a part; nothing where it is there already."""
    counts = bench.queue.counts()
    first = sum(counts.values()) - counts["refused"]
    after = min((part + 1) * _PART * bench.claim, bench.items)
    if first < after:
        rows = bench.spark.range(first, after, numPartitions=4).selectExpr(*COLUMNS)
        bench.time("enqueue", lambda: bench.queue.enqueue(rows))


def claims(bench: Bench, name: str, count: int) -> None:
    """Claim and settle a few times."""
    for _ in range(_CLAIMS):
        claim = bench.time(name, lambda: bench.queue.claim(count))
        if claim.count != count:
            raise RuntimeError(f"{claim.count:,} items were claimed instead of {count:,}")
        bench.time(f"{name}, settled", claim.ack)


def drain(bench: Bench) -> None:
    """Work off a tenth of all items, and at least two claims."""
    goal, stop = max(2 * bench.claim, bench.items // 10), threading.Event()
    began = [(time.perf_counter(), worked_below())]

    def look(done: ProcessResult) -> None:
        now = time.perf_counter(), worked_below()
        took = now[0] - began[0][0], now[1] - began[0][1]
        bench.meter.taken.setdefault("drain", []).append(took)
        began[0] = now
        if done.acked >= goal:
            stop.set()

    bench.queue.process(_nothing, per="batch", limit=bench.claim, stop=stop, on_claim=look)


def _nothing(rows: pa.Table) -> None:
    """Do nothing with a table of items."""


def states(bench: Bench) -> None:
    """Count the items of each state by their rows."""
    bench.time("states", bench.queue.status().groupBy("_state").count().collect)


def purge(bench: Bench) -> None:
    """Remove those that are done of the first tenth of all items."""
    where = f"_state = 'acked' AND id < {bench.items // 10}"
    bench.time("purge", lambda: bench.queue.purge(where))


#: What is measured after the enqueue, in this order.
VERBS: dict[str, Verb] = {
    "stats": lambda bench: bench.time("stats", bench.queue.stats),
    "claims": lambda bench: claims(bench, "claim", bench.claim),
    "drain": drain,
    "small": lambda bench: claims(bench, "small claim", max(1, bench.claim // 100)),
    "states": states,
    "maintain": lambda bench: bench.time("maintain", bench.queue.maintain),
    "purge": purge,
    "later": lambda bench: claims(bench, "later claim", bench.claim),
}

#: What touches all items, and may take ten times as long with ten times as many.
_ALL = ("enqueue", "stats", "states", "maintain", "purge")


def verbs(items: int, claim: int) -> dict[str, Verb]:
    """Return all verbs of a queue in order; each part of the enqueue is one."""
    parts = range(-(-items // (_PART * claim)))
    return {f"enqueue-{part}": partial(enqueue, part=part) for part in parts} | VERBS


@app.command()
def one(at: Path, name: str, verb: str, items: int) -> None:
    """Measure one verb of one queue in this process, and print what it took."""
    conf: dict[str, Any] = {"spark.driver.memory": _HEAP, "spark.local.dir": str(at / "spark")}
    conf[_PARTITIONS] = "8"
    spark, path = local_session("hundred", **conf), str(at / name)
    if DeltaQueue.exists(spark, path):
        queue = DeltaQueue.open(spark, path)
    else:
        queue = DeltaQueue.create(spark, path, SCHEMA, CONFIG)
    bench = Bench(spark, queue, items // QUEUES[name], items // 100, Meter(work=worked_below))
    verbs(bench.items, bench.claim)[verb](bench)
    (jvm,) = (Path(f"/proc/{pid}/status").read_text() for pid in servers())
    (high,) = re.findall(r"VmHWM:\s+(\d+) kB", jvm)
    python = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory = {"python": python / 1024**2, "jvm": int(high) / 1024**2}
    said = {"took": bench.meter.taken, **memory, "bytes": bytes_of(at / name)}
    typer.echo(json.dumps(said))
    spark.stop()


def bytes_of(path: Path) -> int:
    """Return what a folder takes of the disk."""
    return sum(file.lstat().st_blocks * 512 for file in path.rglob("*") if file.is_file())


@app.command()
def run(
    at: Annotated[Path, typer.Option(help="The folder of the run, which stays.")],
    items: Annotated[int, typer.Option(min=10_000, help="How many items.")] = 100_000_000,
    again: Annotated[str, typer.Option("--from", help="Forget this verb, and all after it.")] = "",
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on a missed target.")] = False,
) -> None:
    """Measure all verbs of both queues, and compare them."""
    at.mkdir(parents=True, exist_ok=True)
    kept = at / "took.jsonl"
    known = {(one["name"], one["verb"]): one for one in map(json.loads, _lines(kept))}
    due = [
        (name, verb) for name, part in QUEUES.items() for verb in verbs(items // part, items // 100)
    ]
    if again:
        known = {key: known[key] for key in due[: _position(due, again)] if key in known}
        kept.write_text("".join(json.dumps(one) + "\n" for one in known.values()))
    _require_room(at, items)
    for name, verb in due:
        if (name, verb) not in known:
            known[name, verb] = _measured(at, name, verb, items)
            with kept.open("a") as file:
                file.write(json.dumps(known[name, verb]) + "\n")
    figures = [emit(figure) for figure in compared(known.values(), items)]
    table(figures)
    sys.exit(exit_code(figures, strict=strict))


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _position(due: list[tuple[str, str]], again: str) -> int:
    """Return where a verb comes first: ``purge``, or ``whole/purge`` for the large queue alone."""
    for at, (name, verb) in enumerate(due):
        if again in (verb, f"{name}/{verb}"):
            return at
    names = ", ".join(dict.fromkeys(verb for _, verb in due))
    raise typer.BadParameter(f"{again!r} is none of {names}")


def _require_room(at: Path, items: int) -> None:
    """Say how many bytes a run takes, and raise where they do not fit."""
    there = bytes_of(at)
    disk, more = shutil.disk_usage(at), max(0, _BYTES * items - there)
    typer.echo(
        f"{items:,} items and a tenth of them take about {_BYTES * items / 1e9:.1f} GB in {at}, of "
        f"which {there / 1e9:.1f} are there; {disk.free / 1e9:.1f} are free"
    )
    if more * (1 + _ROOM) > disk.free:
        raise typer.BadParameter(f"{more / 1e9:.1f} GB more, and a fifth of room, do not fit")


def _measured(at: Path, name: str, verb: str, items: int) -> dict[str, Any]:
    """Measure a verb in a process of its own."""
    command = [sys.executable, __file__, "one", str(at), name, verb, str(items)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"{name}/{verb} ended with {done.returncode}: the same command goes on")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    times = "; ".join(
        f"{what} {', '.join(f'{wait:.2f}' for wait, _ in pairs)} s, "
        f"{sum(work for _, work in pairs):.1f} s of processors"
        for what, pairs in found["took"].items()
    )
    typer.echo(
        f"{name}/{verb}: {times or 'was done'}; Python {found['python']:.2f} GiB, JVM "
        f"{found['jvm']:.2f} GiB; {found['bytes'] / 1e9:.2f} GB on disk"
    )
    return {"name": name, "verb": verb, **found}


def compared(kept: Collection[Mapping[str, Any]], items: int) -> Iterator[Figure]:
    """Compare the large queue of a run with the small one, and tell the memory of both."""
    took: dict[str, dict[str, list[list[float]]]] = {name: {} for name in QUEUES}
    for one in kept:
        for what, pairs in one["took"].items():
            took[one["name"]].setdefault(what, []).extend(pairs)
    for what, pairs in took["whole"].items():
        parts = 10 if what in _ALL else 1
        for side, of in (("", 0), (".work", 1)):
            after, before = (
                _seconds(what, [pair[of] for pair in one]) for one in (pairs, took["tenth"][what])
            )
            detail = (
                f"{items:,} items {after:.1f} s, a tenth {before:.1f} s, over {parts} times that"
            )
            name = f"hundred.{what.replace(', ', '.').replace(' ', '-')}{side}"
            yield Figure(name, after / before / parts, None if side else at_most(1.3), "x", detail)
    rate = items / 100 / _seconds("drain", [wait for wait, _ in took["whole"]["drain"]])
    yield Figure("hundred.drain.rate", rate, None, "items/s", f"{items // 100:,} a claim")
    for side in ("python", "jvm"):
        most = max(kept, key=lambda one: one[side])
        detail = f"the most of all verbs, by {most['name']}/{most['verb']}; the heap is {_HEAP}"
        yield Figure(f"hundred.{side}", most[side], _GIB, "GiB", detail)
    most_bytes = max(one["bytes"] for one in kept)
    yield Figure("hundred.bytes", most_bytes / items, None, "bytes an item", "the large queue")


def _seconds(what: str, times: Sequence[float]) -> float:
    """Return the seconds of all parts, or of a usual one: the first has to learn of the queue."""
    return sum(times) if what in _ALL else median(times[1:] or times)


if __name__ == "__main__":
    app()
