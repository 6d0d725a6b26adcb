"""Kill the driver at random moments and check that a queue loses nothing and repeats nothing.

A child process enqueues and processes; the parent kills it, with its JVM, by SIGKILL after a
drawn delay, and starts the next. At the end one child runs undisturbed, and the tables are held
against the laws of the queue. The seed decides every delay, so a run can be repeated.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(add_completion=False, no_args_is_help=False)

FRAMES = 3
ROWS = 60

#: Seconds after a child is ready within which it is killed.
KILL_WITHIN = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the tables hold after all kills."""

    items: int
    acked: int
    output_rows: int
    repeated: int
    missing: int
    open_leases: int
    out_of_order: int

    def holds(self) -> bool:
        """Tell whether every item is in the output exactly once, and nothing is left open."""
        exact = self.items == self.acked == self.output_rows == FRAMES * ROWS
        return exact and not (
            self.repeated or self.missing or self.open_leases or self.out_of_order
        )


@app.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    kills: Annotated[int, typer.Option(min=0, help="How often to kill the driver.")] = 20,
    seed: Annotated[int, typer.Option(help="Decides when; 0 draws one.")] = 0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Kill and restart a driver, then verify."""
    if context.invoked_subcommand is not None:
        return
    drawn = seed or random.SystemRandom().randrange(1, 1 << 31)
    rng = random.Random(drawn)  # noqa: S311 - it has to be repeatable, not secret
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as place:
        killed = 0
        while killed < kills:
            killed += _killed(place, rng.uniform(0, KILL_WITHIN))
        _child("work", place).check_returncode()
        answer = _child("verify", place, capture=True)
        answer.check_returncode()
        verdict = Verdict(**json.loads(answer.stdout))
    _report(drawn, killed, verdict, time.monotonic() - started, as_json=as_json)
    raise typer.Exit(0 if verdict.holds() else 1)


def _killed(place: str, delay: float) -> bool:
    """Start a child and kill it; False where it had finished before, and the queue is made anew."""
    with subprocess.Popen(  # noqa: S603 - our own interpreter and script
        _command("work", place), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        assert child.stdout is not None  # noqa: S101 - for the type checker: it is a pipe
        child.stdout.readline()
        time.sleep(delay)
        if child.poll() is not None:
            _forget(place)
            return False
        os.killpg(child.pid, signal.SIGKILL)
        return True


def _forget(place: str) -> None:
    """Begin again: what is done cannot be killed."""
    for made in ("queue", "out"):
        shutil.rmtree(f"{place}/{made}", ignore_errors=True)


def _child(what: str, place: str, *, capture: bool = False) -> subprocess.CompletedProcess[str]:
    out = subprocess.PIPE if capture else subprocess.DEVNULL
    return subprocess.run(_command(what, place), stdout=out, text=True, check=False)  # noqa: S603


def _command(what: str, place: str) -> list[str]:
    return [sys.executable, str(Path(__file__)), what, place]


def _report(seed: int, killed: int, verdict: Verdict, seconds: float, *, as_json: bool) -> None:
    facts: dict[str, Any] = {
        "seed": seed,
        "kills": killed,
        "holds": verdict.holds(),
        "seconds": round(seconds, 1),
        **asdict(verdict),
    }
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        typer.echo(" ".join(f"{name}={value}" for name, value in facts.items()))


@app.command(hidden=True)
def work(place: str) -> None:
    """Enqueue and process, as a driver that knows nothing of its predecessors."""
    from spark_queue import DeltaQueue, QueueConfig, RetryPolicy, local_session  # noqa: PLC0415

    spark = local_session("chaos", quiet=True)
    typer.echo("ready")
    sys.stdout.flush()
    path = f"{place}/queue"
    if DeltaQueue.exists(spark, path):
        queue = DeltaQueue.open(spark, path)
    else:
        config = QueueConfig(
            dedup_key="id",
            dedup_scope="forever",
            fair_key="tenant",
            group_key="grp",
            max_losses=None,
            retry=RetryPolicy(delay=timedelta(0)),
        )
        queue = DeltaQueue.create(spark, path, "id long, tenant string, grp string", config)
    for frame in range(FRAMES):
        rows = spark.range(frame * ROWS, (frame + 1) * ROWS).selectExpr(
            "id", "concat('t', id % 3) AS tenant", "concat('g', id % 7) AS grp"
        )
        queue.enqueue(rows, order_by="id")
        _drain(queue, f"{place}/out")
    spark.stop()


def _drain(queue: Any, out: str) -> None:
    def handle(item: dict[str, Any]) -> dict[str, Any]:
        if item["id"] % 17 == 0 and item["_attempts"] == 0:
            raise ValueError("fails the first time")
        return {"id": item["id"], "grp": item["grp"], "at": time.time()}

    queue.process(handle, limit=40, run=3, returns="id long, grp string, at double", output=out)


@app.command(hidden=True)
def verify(place: str) -> None:
    """Hold the tables against the laws and print what they hold."""
    from pyspark.sql import functions as F  # noqa: PLC0415

    from spark_queue import DeltaQueue, local_session  # noqa: PLC0415

    spark = local_session("chaos", quiet=True)
    queue = DeltaQueue.open(spark, f"{place}/queue")
    out = spark.read.format("delta").load(f"{place}/out")
    stats = queue.stats()
    disordered = out.alias("a").join(
        out.alias("b"),
        F.expr("a.grp = b.grp AND a._seq < b._seq AND a.at > b.at"),
    )
    verdict = Verdict(
        items=stats.enqueued,
        acked=stats.acked,
        output_rows=out.count(),
        repeated=out.groupBy("id").count().where("count > 1").count(),
        missing=spark.range(FRAMES * ROWS).join(out, "id", "left_anti").count(),
        open_leases=stats.claimed,
        out_of_order=disordered.count(),
    )
    typer.echo(json.dumps(asdict(verdict)))
    spark.stop()


if __name__ == "__main__":
    app()
