"""Everything that a user does, once, on the Spark that is installed here: see versions.py.

``python jobs/versions_smoke.py [connect]`` prints a line of JSON for each part, as it ends.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import spark_queue
from spark_queue.errors import InvalidConfigError, SetupError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_queue import DeltaQueue, LocalQueue

#: What a part raised, in full, for whoever mends it.
_WORDS = 300

_COLUMNS, _MEASURES = "path string, tenant string", "size int, at timestamp"
_ROWS = [("a/1", "ann"), ("a/2", "ann"), ("b/1", "bob")]
_CONFIG = spark_queue.QueueConfig(dedup_key="path", fair_key="tenant", max_attempts=1)


def main(argv: list[str]) -> int:
    """Play each part and print what became of it."""
    connect = argv == ["connect"]
    with tempfile.TemporaryDirectory(prefix="spark-queue-") as place:
        if not connect:
            _tell("local queue", _outcome(_local, None, Path(place, "local")))
        try:
            spark = _session(connect=connect)
        except (SetupError, InvalidConfigError) as exc:
            _tell("session", f"refused: {exc}")
            _tell("plain session", _refusal(Path(place)))
            return 0
        for name, part in (CONNECT if connect else PARTS).items():
            folder = Path(place, name.replace(" ", "-"))
            folder.mkdir()
            _tell(name, _outcome(part, spark, folder))
        spark.stop()
    return 0


def _session(*, connect: bool) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - it may be too old for the rest

    from spark_queue.session import local_conf  # noqa: PLC0415 - as above

    if not connect:
        return spark_queue.local_session("smoke", quiet=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.remote("local[2]")
    for name, value in local_conf({}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _refusal(place: Path) -> str:
    """Return how a session that the library did not make is refused, and leave no trace."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    path = place / "queue"
    session = spark.getOrCreate()
    try:
        spark_queue.DeltaQueue.create(session, str(path), _COLUMNS)
    except SetupError as exc:
        return f"refused: {exc}" if not path.exists() else "failed: a table was made"
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is told
        return _failure(exc)
    finally:
        session.stop()
    return "failed: a queue was made"


def _tell(part: str, outcome: str) -> None:
    print(json.dumps({"part": part, "outcome": outcome}), flush=True)  # noqa: T201 - it is the answer


def _outcome(part: Callable[[Any, Path], None], spark: Any, place: Path) -> str:
    try:
        part(spark, place)
    except SetupError as exc:
        return f"refused: {exc}"
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is told
        return _failure(exc)
    return "ok"


def _failure(exc: Exception) -> str:
    # A data source refuses in a process of its own, and Spark tells of that with its traceback.
    refused = re.search(r"\bSetupError: (.+)", str(exc))
    if refused:
        return f"refused: {refused[1]}"
    return f"failed: {type(exc).__name__}: {exc}"[:_WORDS]


def _expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{found!r}, and not {wanted!r}")


def _made(spark: SparkSession, place: Path, name: str = "queue") -> DeltaQueue:
    queue = spark_queue.DeltaQueue.create(spark, f"{place}/{name}", _COLUMNS, _CONFIG)
    queue.enqueue(spark.createDataFrame(_ROWS, _COLUMNS), order_by="path")
    return queue


def _made_here(place: Path, name: str = "queue") -> LocalQueue:
    """Make the same queue without a session."""
    queue = spark_queue.LocalQueue.create(f"{place}/{name}", _COLUMNS, _CONFIG)
    queue.enqueue([{"path": path, "tenant": tenant} for path, tenant in _ROWS], order_by="path")
    return queue


def _made_by_any(spark: SparkSession, place: Path) -> DeltaQueue | LocalQueue:
    """Make it by the session, or without where that has no Delta."""
    return _made(spark, place) if _tables_of(spark) == "delta" else _made_here(place)


def _tables_of(spark: SparkSession) -> str:
    """Return the format of what a stream writes: Delta, where the session has it."""
    return "delta" if "delta" in (spark.conf.get("spark.sql.extensions", "") or "") else "parquet"


def _local(_: None, place: Path) -> None:
    """Do all that needs no session, and load nothing of Spark."""
    queue = _made_here(place)
    with queue.claim(1) as claim:
        _expect([row["path"] for row in claim.rows], ["a/1"])
    queue.claim(1).nack("no")
    _expect(queue.dead().column("path").to_pylist(), ["b/1"])
    _expect(queue.redrive("path = 'b/1'"), 1)
    _expect(queue.process(_measure, returns=_MEASURES, output=f"{place}/sizes").acked, 2)
    _read(_made_here(place, "read"))
    _put_and_get(_made_here(place, "put"))
    _look_after(_made_here(place, "looked after"), place)
    _expect("pyspark" in sys.modules, wanted=False)


def _measure(item: dict[str, Any]) -> dict[str, Any]:
    return {"size": len(item["path"]), "at": datetime(2026, 1, 1, tzinfo=timezone.utc)}


def _verbs(spark: SparkSession, place: Path) -> None:
    """Enqueue, claim, settle, look, redrive."""
    queue = _made(spark, place)
    again = queue.enqueue(spark.createDataFrame(_ROWS[:1], _COLUMNS))
    _expect(again.duplicates, 1)
    with queue.claim(1) as claim:
        _expect([row["path"] for row in claim.items.collect()], ["a/1"])
    queue.claim(1).nack("no")
    _expect([row["path"] for row in queue.dead().collect()], ["b/1"])
    _expect(queue.redrive("path = 'b/1'"), 1)
    _expect(queue.status().where("_state = 'ready'").count(), 2)
    _expect(queue.stats().acked, 1)
    _expect(queue.history(1).count() > 1, wanted=True)
    _expect(queue.explain(2).seq, 2)


def _planned(spark: SparkSession, place: Path) -> None:
    """Do the same by Spark's plans, as on a shared store and in large steps."""
    from spark_queue.session import SMALL_STEPS  # noqa: PLC0415 - once there is a session

    spark.conf.set(SMALL_STEPS, "spark")
    try:
        _verbs(spark, place)
        queue = spark_queue.DeltaQueue.open(spark, f"{place}/queue")
        rows = spark.range(3_000).selectExpr("'p' || id AS path", "'t' || id % 7 AS tenant")
        _expect(queue.enqueue(rows).inserted, 3_000)
        claim = queue.claim(2_000)
        claim.ack()
        _expect(queue.counts()["acked"], 2_001)
        queue.maintain()
    finally:
        spark.conf.unset(SMALL_STEPS)


def _process(spark: SparkSession, place: Path) -> None:
    """Run handlers, with and without an output."""
    output = f"{place}/sizes"
    queue = _made(spark, place)
    queue.process(_measure, returns=_MEASURES, output=output)
    _expect([row["size"] for row in spark.read.format("delta").load(output).collect()], [3] * 3)
    more = _made(spark, place, "more")
    _expect(more.process(lambda _: None).acked, 3)


def _readers(spark: SparkSession, place: Path) -> None:
    """Have several readers."""
    _read(_made(spark, place))


def _read(queue: DeltaQueue | LocalQueue) -> None:
    billing = queue.reader("billing")
    _expect(billing.lag().items, 3)
    billing.process(lambda _: None)
    late = queue.reader("late", start="beginning")
    _expect((billing.counts()["acked"], late.counts()["ready"]), (3, 3))


def _fronts(spark: SparkSession, place: Path) -> None:
    """Put, get and keep keys, one at a time."""
    _put_and_get(_made(spark, place))
    keys = spark_queue.DeltaIdempotencyKeyStore(spark, f"{place}/keys")
    token = keys.try_lock("once")
    _expect(keys.accept("once", str(token)), wanted=True)
    _expect(keys.try_lock("once"), None)
    keys.close()


def _put_and_get(queue: DeltaQueue | LocalQueue) -> None:
    with spark_queue.DurableQueue(queue) as front:
        front.put({"path": "c/1", "tenant": "cyd"}).result(60)
        paths: list[str] = []
        for _ in range(4):
            with front.receive(timeout=60) as delivery:
                paths.append(str(delivery.item["path"]))
    _expect(sorted(paths), ["a/1", "a/2", "b/1", "c/1"])


def _upkeep(spark: SparkSession, place: Path) -> None:
    """Undo, clone, purge, maintain, look after."""
    _look_after(_made(spark, place), place)


def _look_after(queue: DeltaQueue | LocalQueue, place: Path) -> None:
    _expect(queue.cancel("path = 'b/1'"), 1)
    _expect(queue.clone(f"{place}/clone").stats().ready, 2)
    queue.configure(max_in_flight=10)
    queue.claim(1).ack()
    _expect(queue.purge("path = 'a/1'"), 1)
    queue.maintain(retention=timedelta(days=1))
    queue.report()
    queue.report_item(2)
    queue.doctor()
    _expect(queue.add_columns("size int"), ["size"])


def _streams(spark: SparkSession, place: Path) -> None:
    """Fill and work off a queue by streams, and read it as one."""
    queue = _made(spark, place)
    spark.createDataFrame([("c/1", "cyd")], _COLUMNS).write.json(f"{place}/landing")
    arrivals = spark.readStream.schema(_COLUMNS).json(f"{place}/landing")
    queue.enqueue_stream(arrivals, f"{place}/in").awaitTermination()
    _expect(queue.stats().ready, 4)
    out = queue.read_stream("search", start="beginning").writeStream.format("delta")
    out = out.option("checkpointLocation", f"{place}/search").trigger(availableNow=True)
    out.start(f"{place}/index").awaitTermination()
    _expect(spark.read.format("delta").load(f"{place}/index").count(), 4)
    query = queue.process_stream(lambda _: None, f"{place}/work", trigger=timedelta(seconds=1))
    for _ in range(60):
        if queue.stats().acked == len(_ROWS) + 1:
            break
        query.awaitTermination(1)
    query.stop()
    _expect(queue.stats().acked, 4)


def _frames(spark: SparkSession, _: Path) -> None:
    """Use the operators on frames."""
    from spark_queue import operators  # noqa: PLC0415 - once there is a session

    rows = spark.createDataFrame([("a", 1), ("a", 2), ("b", 3)], "path string, at int")
    frames: list[DataFrame] = [
        rows.transform(operators.distinct, "path", order_by="at"),
        rows.transform(operators.serial_heads, "path", order_by="at"),
        rows.transform(operators.fair_take, 2, "path", order_by="at"),
    ]
    for found in frames:
        _expect(sorted(int(row["at"]) for row in found.collect()), [1, 3])


def _stateful(spark: SparkSession, place: Path) -> None:
    """Use the operators on streams, and start them again."""
    from spark_queue.streaming import (  # noqa: PLC0415 - once there is a session
        distinct_in_flight,
        fair_rounds,
        one_active_per_group,
    )

    schema = "path string, at long"
    for name in ("in", "done"):
        rows = [("a", 1), ("a", 2), ("b", 3)] if name == "in" else []
        spark.createDataFrame(rows, schema).coalesce(1).write.json(f"{place}/{name}")
    arrivals, done = (spark.readStream.schema(schema).json(f"{place}/{n}") for n in ("in", "done"))
    options: dict[str, Any] = {"order_by": "at", "buckets": 2}
    streams: dict[str, DataFrame] = {
        "distinct": distinct_in_flight(arrivals, done, "path", **options),
        "fair": fair_rounds(arrivals, "path", **options),
        "serial": one_active_per_group(arrivals, done, "path", **options),
    }
    for name, stream in streams.items():
        for _ in range(2):
            out = stream.writeStream.format(_tables_of(spark)).trigger(availableNow=True)
            out = out.option("checkpointLocation", f"{place}/{name}.checkpoint")
            out.start(f"{place}/{name}.out").awaitTermination()
        found = spark.read.format(_tables_of(spark)).load(f"{place}/{name}.out")
        _expect(found.count(), 3 if name == "fair" else 2)


def _format(spark: SparkSession, place: Path) -> None:
    """Read views of a queue, and write to it, by the format of Spark."""
    queue = _made_by_any(spark, place)
    options = {"source": "smoke", "batch": "1"}
    rows = spark.createDataFrame([("c/1", "cyd")], _COLUMNS)
    for _ in range(2):
        rows.write.format("spark_queue").options(**options).mode("append").save(queue.name)
    of = f"path '{queue.name}', view 'status'"
    spark.sql(f"CREATE TEMPORARY VIEW smoke USING spark_queue OPTIONS ({of})")
    _expect(spark.table("smoke").where("_state = 'ready'").count(), 4)
    spark.catalog.dropTempView("smoke")


def _sink(spark: SparkSession, place: Path) -> None:
    """Fill a queue by a sink, whose last micro-batch comes again."""
    queue = _made_by_any(spark, place)
    spark.createDataFrame([("c/1", "cyd")], _COLUMNS).write.json(f"{place}/landing")
    arrivals = spark.readStream.schema(_COLUMNS).json(f"{place}/landing")
    for _ in range(2):
        out = arrivals.writeStream.format("spark_queue").option("path", queue.name)
        out = out.option("checkpointLocation", f"{place}/in").trigger(availableNow=True)
        out.start().awaitTermination()
        _expect(queue.stats().ready, 4)
        for commit in Path(place, "in", "commits").glob("*0*"):
            commit.unlink()


def _claims(spark: SparkSession, place: Path) -> None:
    """Work a queue off by a stream of claims."""
    queue = _made_by_any(spark, place)
    claims = spark.readStream.format("spark_queue").load(queue.name)
    out = claims.writeStream.format(_tables_of(spark)).option("checkpointLocation", f"{place}/work")
    out.trigger(availableNow=True).start(f"{place}/done").awaitTermination()
    _expect(spark.read.format(_tables_of(spark)).load(f"{place}/done").count(), 3)


def _commands(_: SparkSession, place: Path) -> None:
    """Use the command line, in processes of its own."""
    _run(place, "process ./files work:work", "status ./files", "doctor ./files")


def _commands_of_spark(_: SparkSession, place: Path) -> None:
    """Have Spark answer commands."""
    _run(place, "process ./files work:work --engine spark", "status ./files --engine spark")


def _run(place: Path, *commands: str) -> None:
    """Make a queue, and then run commands on it."""
    Path(place, "new.csv").write_text("path,tenant\na/1,ann\nb/1,bob\n", encoding="utf-8")
    Path(place, "work.py").write_text("def work(item):\n    return None\n", encoding="utf-8")
    create = f"create ./files --schema '{_COLUMNS}' --dedup-key path"
    for command in (create, "enqueue ./files --files new.csv", *commands):
        program = f"{Path(sys.executable).parent}/spark-queue {command}"
        done = subprocess.run(  # noqa: S602 - our own text
            program, shell=True, cwd=place, capture_output=True, text=True, check=False
        )
        if "this is Spark" in done.stderr:
            raise SetupError(done.stderr.strip())
        _expect((done.returncode, done.stderr if done.returncode else ""), (0, ""))


#: In the order of the table; those of a column are played one after another.
PARTS: dict[str, Callable[[Any, Path], None]] = {
    "verbs": _verbs,
    "large steps": _planned,
    "process": _process,
    "readers": _readers,
    "fronts": _fronts,
    "upkeep": _upkeep,
    "streams of a queue": _streams,
    "format": _format,
    "format as a sink": _sink,
    "format as a stream": _claims,
    "operators on frames": _frames,
    "operators on streams": _stateful,
    "command line": _commands,
    "commands of Spark": _commands_of_spark,
}

CONNECT: dict[str, Callable[[Any, Path], None]] = {
    "connect verbs": _verbs,
    "connect work": _process,
    "connect format": _format,
    "connect frames": _frames,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
