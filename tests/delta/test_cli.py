from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_queue.delta_queue import DeltaQueue
from spark_queue.local_queue import LocalQueue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_COMMAND = (sys.executable, "-m", "spark_queue.cli")

_HANDLER = """
import pathlib
import time

from spark_queue import Reject


def double(item):
    if item["n"] < 0:
        raise Reject("negative")
    return {"n": item["n"], "twice": 2 * item["n"]}


def hang(item):
    pathlib.Path(item["mark"]).touch()
    time.sleep(600)


def touch(item):
    pathlib.Path(item["mark"]).touch()
"""


@pytest.fixture
def own(
    run: Callable[..., Any], place: str, queue_path: str, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Make and fill a user's own queue by commands, with a handler beside it."""
    monkeypatch.syspath_prepend(place)
    Path(place, "handlers_of_a_user.py").write_text(_HANDLER)
    Path(place, "rows.csv").write_text("tenant,n\na,1\na,2\nb,-3\nb,2\n")
    schema = ("--schema", "n int, tenant string")
    run("create", queue_path, *schema, "--fair-key", "tenant", "--dedup-key", "n")
    enqueued = run("enqueue", queue_path, "--files", f"{place}/rows.csv")
    assert (enqueued["inserted"], enqueued["duplicates"]) == (3, 1)
    return queue_path


@pytest.mark.usefixtures("new_york")
def test_own_queue_is_worked_off_and_looked_at(
    run: Callable[..., Any], own: str, place: str, spark: SparkSession
) -> None:
    """A user's own queue is processed, mended and looked at by commands alone, in any zone."""
    before = datetime.now(timezone.utc).isoformat()
    out = ("--output", f"{place}/out", "--returns", "n int, twice int")
    done = run("process", own, "handlers_of_a_user:double", *out)
    assert (done["acked"], done["dead"], done["stopped"]) == (2, 1, "empty")
    written = spark.read.format("delta").load(f"{place}/out").select("n", "twice").collect()
    assert sorted(map(tuple, written)) == [(1, 2), (2, 4)]

    (letter,) = run("dead", own)["items"]
    assert letter["_error"] == "Reject: negative"
    _looks_back(run, own, letter, before)
    foreseen = run("redrive", own, "--dry-run")
    assert (foreseen["count"], foreseen["dry_run"]) == (1, True)
    assert foreseen["becomes"] == {"ready": 1}
    assert run("redrive", own)["count"] == 1
    assert run("redrive", own)["count"] == 0
    (letter,) = run("dead", own)["items"]
    assert letter["_successor"] == 5
    # Its key is its successor's now.
    again = run("redrive", own, "--again", "--dry-run")
    assert (again["count"], again["becomes"]) == (0, {"refused": 1})
    assert run("cancel", own, "--where", "n < 0")["count"] == 1
    status = run("status", own, "--where", "tenant = 'b'")
    assert status["states"] == {"cancelled": 1, "dead": 1}
    assert [item["n"] for item in status["items"]] == [-3, -3]


def _looks_back(run: Callable[..., Any], own: str, letter: dict[str, Any], before: str) -> None:
    """See how a dead letter came to be, and the queue before and while it was worked on."""
    seq = str(letter["_seq"])
    assert run("explain", own, seq)["reason"] == "finished"
    told = run("history", own, seq)["transitions"]
    assert [row["_state"] for row in told] == ["ready", "claimed", "dead"]
    assert told[-1]["_at"] == letter["_finished_at"]
    ago = datetime.now(timezone.utc) - datetime.fromisoformat(letter["_finished_at"])
    assert timedelta(0) <= ago < timedelta(minutes=15)
    assert run("status", own, "--as-of", before)["states"] == {"ready": 3}
    assert run("status", own, "--as-of", str(told[1]["_step"]))["states"] == {"claimed": 3}
    assert run("dead", own, "--as-of", before)["count"] == 0
    assert run("history", own, "99", code=2)["message"].startswith("seq is 99")


def test_own_queue_is_kept_in_order(run: Callable[..., Any], own: str) -> None:
    """A queue is made once, counted, maintained and purged by commands."""
    assert run("create", own, "--schema", "n int", code=2)["error"] == "QueueExistsError"
    assert run("cancel", own, "--where", "n < 0")["count"] == 1
    assert run("maintain", own)["dropped_items"] == 0
    foreseen = run("purge", own, "--where", "n < 0", "--dry-run")
    assert (foreseen["count"], foreseen["dry_run"]) == (1, True)
    assert foreseen["becomes"] == {"gone": 1}
    assert run("purge", own, "--where", "n < 0")["count"] == 1
    stats = run("stats", own)
    assert (stats["ready"], stats["refused"]) == (2, 1)
    assert {row["fair_key"]: row["ready"] for row in stats["per_key"]}["a"] == 2
    step = run("configure", own, "--max-attempts", "none", "--weight", "a=2")["step"]
    told = run("config", own)
    assert (told["schema"], told["paused"]) == ("n int, tenant string", False)
    assert (told["config"]["max_attempts"], told["config"]["weights"]) == (None, {"a": 2.0})
    assert run("stats", own)["step"] == step
    assert run("drop", own, "--yes")["dropped"] == own
    assert run("drop", own, "--yes", code=2)["error"] == "QueueNotFoundError"


def test_readers_are_made_worked_off_and_dropped_by_commands(
    run: Callable[..., Any], own: str, place: str
) -> None:
    """Each reader is registered, looked at and worked off by its name, and forgotten."""
    Path(place, "limits.yaml").write_text("max_items: 10\nfull_policy: drop_oldest\n")
    message = run("add-reader", own, "mail", "--start", "tail", code=2)["message"]
    assert "it takes over from the default reader" in message
    first = run("add-reader", own, "mail")
    assert (first["number"], first["readers"]) == (0, ["mail"])
    assert "while it is the only one, commands without --reader mean it" in first["news"]
    assert run("status", own)["states"] == {"ready": 3}
    added = run(
        "add-reader", own, "audit", "--start", "beginning", "--config", f"{place}/limits.yaml"
    )
    assert (added["number"], added["limits"]["max_items"]) == (1, 10)

    returns = ("--returns", "n int, twice int")
    done = run("process", own, "handlers_of_a_user:double", *returns, "--reader", "mail")
    assert (done["acked"], done["dead"]) == (2, 1)
    lags = {row["reader"]: row["items"] for row in run("readers", own)["readers"]}
    assert lags == {"mail": 0, "audit": 3}
    assert run("redrive", own, "--reader", "mail")["count"] == 1
    assert run("status", own, "--reader", "audit")["states"] == {"ready": 3}
    assert "mail" in run("status", own, code=2)["message"]

    assert run("drop-reader", own, "audit")["readers"] == ["mail"]
    assert run("stats", own, "--reader", "audit", code=2)["error"] == "ReaderNotFoundError"


def test_file_that_does_not_fit_the_queue_is_refused(
    run: Callable[..., Any], place: str, queue_path: str, spark: SparkSession
) -> None:
    """A missing column, an unknown one and a value of another type enqueue nothing."""
    queue = DeltaQueue.create(spark, queue_path, "n int, tenant string")
    for name, text, why in (
        ("a.json", '{"n": 1}', "column 'tenant': is missing"),
        ("b.json", '{"n": 1, "tenant": "a", "colour": "red"}', "column 'colour'"),
        ("c.json", '{"n": "one", "tenant": "a"}', "column 'n': is int in the queue, and 'one'"),
        ("d.csv", "n,tenant\n1,a\n2x,b\n", "column 'n': is int in the queue, and '2x' in"),
        ("e.csv", "n,tenant\n1,a,c\n", "'1,a,c' is no record of n, tenant"),
        ("f.json", '{"n": 1, "tenant": "a"}\n{\n', "'{' is no record of n, tenant"),
        ("g.json", '[{"n": 1, "tenant": "a"},\n{"n": "one"}]', "is no record of n, tenant"),
    ):
        Path(place, name).write_text(text + "\n")
        refused = run("enqueue", queue_path, "--files", f"{place}/{name}", code=2)
        assert why in refused["message"]
    missing = run("enqueue", queue_path, "--files", f"{place}/none.csv", code=2)
    assert "cannot be read as csv" in missing["message"]
    assert queue.status().count() == 0


def test_predicate_is_an_expression_only(
    run: Callable[..., Any], queue_path: str, spark: SparkSession
) -> None:
    """A predicate on the command line cannot hold a statement."""
    DeltaQueue.create(spark, queue_path, "n int")

    refused = run("status", queue_path, "--where", "n in (select 1)", code=2)
    misspelt = run("status", queue_path, "--where", "m = 1", code=2)
    no_type = run("create", f"{queue_path}2", "--schema", "n bigit", code=2)

    assert "'select' is not allowed" in refused["message"]
    assert "where is 'm = 1'" in misspelt["message"]
    assert no_type["message"].endswith("there is no type 'bigit'; did you mean 'bigint'?")


def test_directory_that_is_no_queue_is_refused(run: Callable[..., Any], place: str) -> None:
    """A command on what is no queue says so, by its name."""
    refused = run("status", place, code=2)

    assert refused["error"] == "QueueNotFoundError"
    assert place in refused["message"]


@pytest.mark.slow
def test_json_is_all_that_a_process_prints(place: str) -> None:
    """A real process prints one object on standard output, and nothing on standard error."""
    (Path(place) / "source").mkdir()
    (Path(place) / "source" / "a.txt").write_text("a")

    ended = subprocess.run(  # noqa: S603 - our own command
        [*_COMMAND, "ingest", "source", "--queue", "./queue", "--output", "out", "--json"],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("\n") == 1
    assert json.loads(ended.stdout)["processed"] == 1
    # A plain name is a path here, where tables of a catalog would not last.
    assert {"queue", "out"} <= {path.name for path in Path(place).iterdir()}


def test_two_processes_take_turns(queue_path: str, spark: SparkSession) -> None:
    """What another process does to a queue, this one knows at its next step."""
    queue = DeltaQueue.create(spark, queue_path, "n int")
    queue.enqueue(spark.range(3).selectExpr("cast(id as int) n"))

    status, paused = (_said(command, queue_path) for command in ("status", "pause"))

    assert status["states"] == {"ready": 3}
    assert (queue.claim(1).count, queue.paused) == (0, True)
    assert queue.resume() == paused["step"] + 1
    assert queue.claim(1).count == 1


def _said(command: str, queue: str) -> Any:
    """Return what a command says as a process of its own."""
    ended = subprocess.run(  # noqa: S603 - our own command
        [*_COMMAND, command, queue, "--json"], capture_output=True, check=True, timeout=300
    )
    return json.loads(ended.stdout)


@pytest.mark.slow
def test_sigterm_releases_and_says_so(place: str, queue_path: str, spark: SparkSession) -> None:
    """SIGTERM gives back what is being worked on, uncharged, and ends with 143."""
    mark = Path(place) / "mark"
    Path(place, "handlers_that_hang.py").write_text(_HANDLER)
    queue = DeltaQueue.create(spark, queue_path, "mark string")
    queue.enqueue(spark.createDataFrame([(str(mark),)], "mark string"))
    queue.close()
    command = [*_COMMAND, "process", queue_path, "handlers_that_hang:hang", "--json"]
    command += ["--engine", "spark"]
    with subprocess.Popen(  # noqa: S603 - our own command
        command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            _wait_for(mark, process)
            process.send_signal(signal.SIGTERM)
            said, complaints = process.communicate(timeout=120)
        finally:
            process.kill()

    assert (process.returncode, complaints) == (143, "spark-queue: terminated\n")
    assert json.loads(said)["exit"] == 143
    (item,) = queue.status().collect()
    assert (item["_state"], item["_attempts"], item["_losses"]) == ("ready", 0, 0)


@pytest.mark.slow
def test_a_process_that_stays_ends_by_sigterm(place: str, queue_path: str) -> None:
    """It waits for more; then SIGTERM ends it with 143, and it holds nothing."""
    Path(place, "handlers_that_stay.py").write_text(_HANDLER)
    queue = LocalQueue.create(queue_path, "mark string")
    command = [*_COMMAND, "process", queue_path, "handlers_that_stay:touch", "--forever", "--json"]
    command += ["--engine", "spark"]
    with subprocess.Popen(  # noqa: S603 - our own command
        command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            for mark in (Path(place) / "first", Path(place) / "second"):
                queue.enqueue({"mark": str(mark)})
                _wait_for(mark, process)
            process.send_signal(signal.SIGTERM)
            said, complaints = process.communicate(timeout=120)
        finally:
            process.kill()

    assert (process.returncode, complaints) == (143, "spark-queue: terminated\n")
    assert json.loads(said)["exit"] == 143
    stats = queue.stats()
    assert stats.claimed == 0
    assert (stats.acked, stats.ready) in ((2, 0), (1, 1))


def _wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 240
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, f"{path} was not written"
        time.sleep(0.05)
