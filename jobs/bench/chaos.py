"""Kill the driver at random moments and check that a queue loses nothing and repeats nothing.

A child process enqueues and processes; the parent kills it, with its JVM, by SIGKILL after a
drawn delay, and starts the next. At the end one child runs undisturbed, and the tables are held
against the laws of the queue. The seed decides every delay, so a run can be repeated.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Annotated, Any

import typer

from kills import command, kill_often, run as run_child

app = typer.Typer(add_completion=False, no_args_is_help=False)

FRAMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the tables hold after all kills."""

    expected: int
    items: int
    acked: int
    output_rows: int
    repeated: int
    missing: int
    open_leases: int
    out_of_order: int

    def holds(self) -> bool:
        """Tell whether every item is in the output exactly once, and nothing is left open."""
        exact = self.items == self.acked == self.output_rows == self.expected
        return exact and not (
            self.repeated or self.missing or self.open_leases or self.out_of_order
        )


@app.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    kills: Annotated[int, typer.Option(min=0, help="How often to kill the driver.")] = 20,
    seed: Annotated[int, typer.Option(help="Decides when; 0 draws one.")] = 0,
    rows: Annotated[int, typer.Option(min=1, help="Rows of each of the three frames.")] = 60,
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
        child = command(__file__, "work", place, str(rows))
        killed = kill_often(child, kills, rng, lambda: _forget(place))
        run_child(child)
        answer = run_child(command(__file__, "verify", place, str(rows)), capture=True)
        verdict = Verdict(**json.loads(answer))
    _report(drawn, killed, verdict, time.monotonic() - started, as_json=as_json)
    raise typer.Exit(0 if verdict.holds() else 1)


def _forget(place: str) -> None:
    """Begin again: what is done cannot be killed."""
    for made in ("queue", "out"):
        shutil.rmtree(f"{place}/{made}", ignore_errors=True)


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
def work(place: str, rows: int) -> None:
    """Enqueue and process, as a driver that knows nothing of its predecessors."""
    from spark_queue import (  # noqa: PLC0415
        SMALL_STEPS_CONF,
        DeltaQueue,
        QueueConfig,
        RetryPolicy,
        local_session,
    )

    spark = local_session("chaos", quiet=True, **SMALL_STEPS_CONF)
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
        items = spark.range(frame * rows, (frame + 1) * rows).selectExpr(
            "id", "concat('t', id % 3) AS tenant", "concat('g', id % 7) AS grp"
        )
        queue.enqueue(items, order_by="id")
        _drain(queue, f"{place}/out")
    spark.stop()


def _drain(queue: Any, out: str) -> None:
    def handle(item: dict[str, Any]) -> dict[str, Any]:
        if item["id"] % 17 == 0 and item["_attempts"] == 0:
            raise ValueError("fails the first time")
        return {"id": item["id"], "grp": item["grp"], "at": time.time()}

    queue.process(
        handle, limit=40, max_per_group=3, returns="id long, grp string, at double", output=out
    )


@app.command(hidden=True)
def verify(place: str, rows: int) -> None:
    """Hold the tables against the laws and print what they hold."""
    from pyspark.sql import functions as F  # noqa: PLC0415

    from spark_queue import SMALL_STEPS_CONF, DeltaQueue, local_session  # noqa: PLC0415

    spark = local_session("chaos", quiet=True, **SMALL_STEPS_CONF)
    queue = DeltaQueue.open(spark, f"{place}/queue")
    out = spark.read.format("delta").load(f"{place}/out")
    stats = queue.stats()
    disordered = out.alias("a").join(
        out.alias("b"),
        F.expr("a.grp = b.grp AND a._seq < b._seq AND a.at > b.at"),
    )
    verdict = Verdict(
        expected=FRAMES * rows,
        items=stats.enqueued,
        acked=stats.acked,
        output_rows=out.count(),
        repeated=out.groupBy("id").count().where("count > 1").count(),
        missing=spark.range(FRAMES * rows).join(out, "id", "left_anti").count(),
        open_leases=stats.claimed,
        out_of_order=disordered.count(),
    )
    typer.echo(json.dumps(asdict(verdict)))
    spark.stop()


if __name__ == "__main__":
    app()
