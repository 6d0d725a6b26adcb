"""Let two drivers, each with a JVM of its own, work on one queue over HDFS, and check the laws.

On a local disk they would write in turn, so the store is an HDFS of one node in a third JVM, which
this job fetches with Maven and starts. Both drivers enqueue the same keys and claim what there is,
at once; then one opens a journaled front, and the other takes it over.
"""

from __future__ import annotations

import json
import queue
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from kills import command, run as run_child

app = typer.Typer(add_completion=False, no_args_is_help=False)

HADOOP = (
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
    "org.junit.jupiter:junit-jupiter-api:5.11.4",
    "org.junit.platform:junit-platform-commons:1.11.4",
    "org.opentest4j:opentest4j:1.3.0",
    "org.mockito:mockito-core:4.11.0",
    "junit:junit:4.13.2",
)
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"

FRAMES = 5
ROWS = 40

#: Seconds for the store to come up.
PATIENCE = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the tables hold after both."""

    items: int
    acked: int
    keys: int
    leased_twice: int
    over_limit: int
    by_driver: dict[str, int]
    fenced: bool
    front_promised: int
    front_items: int

    def holds(self) -> bool:
        """Tell whether the laws hold, and the first front was shut out."""
        exact = self.items == self.acked == self.keys == FRAMES * ROWS
        kept = self.fenced and self.front_items >= self.front_promised > 0
        return exact and kept and not (self.leased_twice or self.over_limit)


@app.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    jars: Annotated[Path | None, typer.Option(help="Where Hadoop's jars are, or go to.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Start the store and both drivers, then verify."""
    if context.invoked_subcommand is not None:
        return
    started = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="drivers-"))
    try:
        with _store(_fetched(jars or root / "jars"), root) as place:
            verdict = _verdict(place)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    facts = {"holds": verdict.holds(), "seconds": round(time.monotonic() - started, 1)}
    facts |= asdict(verdict)
    typer.echo(
        json.dumps(facts) if as_json else " ".join(f"{name}={v}" for name, v in facts.items())
    )
    raise typer.Exit(0 if verdict.holds() else 1)


def _verdict(place: str) -> Verdict:
    run_child(command(__file__, "create", place))
    with ThreadPoolExecutor() as pool:
        works = [pool.submit(run_child, command(__file__, "work", place, who)) for who in "ab"]
        for work in works:
            work.result()
        first = pool.submit(run_child, command(__file__, "hold", place), capture=True)
        second = pool.submit(run_child, command(__file__, "take", place), capture=True)
        held = json.loads(first.result())
        taken = json.loads(second.result())
    tables = json.loads(run_child(command(__file__, "verify", place), capture=True))
    return Verdict(**held, **taken, **tables)


def _fetched(jars: Path) -> Path:
    jars.mkdir(parents=True, exist_ok=True)
    for artifact in HADOOP:
        _, name, version = artifact.split(":")
        if not (jars / f"{name}-{version}.jar").exists():
            maven = ["mvn", "-q", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={jars}"]
            subprocess.run(maven, check=True)  # noqa: S603 - our own arguments
    return jars


@contextmanager
def _store(jars: Path, root: Path) -> Iterator[str]:
    """Start an HDFS of one node, and return a place in it."""
    import pyspark  # noqa: PLC0415 - only for where its jars are

    port = _free_port()
    spark_jars = Path(pyspark.__file__).parent / "jars"
    java = [
        "java",
        "-cp",
        f"{jars}/*:{spark_jars}/*",
        "org.apache.hadoop.test.MiniDFSClusterManager",
        *("-nnport", str(port), "-datanodes", "1", "-format"),
    ]
    with (root / "hdfs.log").open("w") as log:
        node = subprocess.Popen(  # noqa: S603 - our own arguments
            java, cwd=root, stdin=subprocess.PIPE, stdout=log, stderr=log
        )
    try:
        _await_port(port, node)
        yield f"hdfs://localhost:{port}/queues"
    finally:
        node.kill()
        node.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def _await_port(port: int, node: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and node.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("localhost", port)) == 0:
                # The name node answers before the data node has registered.
                time.sleep(5)
                return
        time.sleep(0.5)
    raise RuntimeError(f"the store did not come up; exit code {node.poll()}")


@app.command(hidden=True)
def create(place: str) -> None:
    """Make the queues."""
    from spark_queue import DeltaQueue, QueueConfig  # noqa: PLC0415 - only a child has Spark

    spark = _session()
    config = QueueConfig(
        dedup_key="id", dedup_scope="forever", fair_key="tenant", group_key="grp", max_losses=None
    )
    DeltaQueue.create(spark, f"{place}/work", "id long, tenant string, grp string", config)
    DeltaQueue.create(spark, f"{place}/front", "item string")
    spark.stop()


@app.command(hidden=True)
def work(place: str, who: str) -> None:
    """Enqueue the same keys as the other, and work off what there is."""
    from spark_queue import DeltaQueue  # noqa: PLC0415

    spark = _session()
    made = DeltaQueue.open(spark, f"{place}/work")
    for frame in range(FRAMES):
        rows = spark.range(frame * ROWS, (frame + 1) * ROWS).selectExpr(
            "id", "concat('t', id % 3) AS tenant", "concat('g', id % 7) AS grp"
        )
        made.enqueue(rows, order_by="id")
        _claimed(made, who)
    idle = 0
    while idle < FRAMES:
        idle = 0 if _claimed(made, who) else idle + 1
    spark.stop()


def _claimed(made: Any, who: str) -> int:
    with made.claim(10, worker_id=who, lease=timedelta(minutes=10)) as claim:
        return int(claim.count)


@app.command(hidden=True)
def hold(place: str) -> None:
    """Hold a queue by a front until another takes it over, and say how that went."""
    from spark_queue.errors import FencedError  # noqa: PLC0415
    from spark_queue.front.journaled import journaled_queue  # noqa: PLC0415

    front = journaled_queue(_session(), f"{place}/front")
    deadline = time.monotonic() + 2 * PATIENCE
    promised, fenced = 0, False
    try:
        while time.monotonic() < deadline:
            front.put("item").result()
            promised += 1
    except FencedError:
        fenced = True
    typer.echo(json.dumps({"fenced": fenced, "front_promised": promised}))


@app.command(hidden=True)
def take(place: str) -> None:
    """Take a queue over from the other's front, and drain it."""
    from spark_queue.front.journaled import journaled_queue  # noqa: PLC0415

    time.sleep(20)
    front = journaled_queue(_session(), f"{place}/front")
    reader, items = front.reader(""), []
    while True:
        try:
            read = reader.get(timeout=0)
        except queue.Empty:
            break
        items.append(read.item)
        reader.ack(read)
    front.close()
    typer.echo(json.dumps({"front_items": len(items)}))


@app.command(hidden=True)
def verify(place: str) -> None:
    """Hold the tables against the laws and print what they hold."""
    from pyspark.sql import functions as F  # noqa: PLC0415

    from spark_queue import DeltaQueue  # noqa: PLC0415

    spark = _session()
    made = DeltaQueue.open(spark, f"{place}/work")
    log = spark.read.format("delta").load(f"{place}/work/status").where("_kind = 'item'")
    granted = log.where("_state = 'claimed' AND _lease = _step")
    twice = granted.groupBy("_seq").count().where("count > 1").count()
    crowded = granted.groupBy("_step", "_group_key").count().where("count > 1").count()
    stats = made.stats()
    rows = granted.groupBy("_worker_id").agg(F.count("*")).collect()
    typer.echo(
        json.dumps(
            {
                "items": stats.enqueued,
                "acked": stats.acked,
                "keys": made.status().select("id").distinct().count(),
                "leased_twice": twice,
                "over_limit": crowded,
                "by_driver": {row[0]: row[1] for row in rows},
            }
        )
    )
    spark.stop()


def _session() -> Any:
    from spark_queue.session import local_session  # noqa: PLC0415

    settings = {
        "spark.driver.memory": "2g",
        "spark.hadoop.dfs.client.use.datanode.hostname": "true",
    }
    return local_session("drivers", master="local[1]", quiet=True, **settings)


if __name__ == "__main__":
    app()
