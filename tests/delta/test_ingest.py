from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import InvalidArgumentError
from spark_queue.ingest import TenantSummary, discover, ingest
from spark_queue.ingest.run import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def source(place: str) -> Path:
    """Make a tree of two tenants, a file at the top, and two that cannot be read."""
    root = Path(place) / "source"
    (root / "acme" / "in").mkdir(parents=True)
    (root / "zeta").mkdir()
    (root / "top.txt").write_text("one\ntwo")
    (root / "acme" / "in" / "a.py").write_text("class A:\n    def f(self): ...\n")
    (root / "acme" / "in" / "b.py").write_text("def broken(:\n")
    (root / "acme" / "in" / "c.bin").write_bytes(b"\x00\x01")
    (root / "zeta" / "gone").symlink_to("nowhere")
    (root / "zeta" / "kept.txt").write_text("kept")
    os.mkfifo(root / "acme" / "pipe")
    return root


@pytest.fixture
def out(place: str) -> str:
    """Return a path for the output."""
    return f"{place}/out"


def _rows(spark: SparkSession, out: str, root: Path) -> dict[str, dict[str, object]]:
    rows = [row.asDict() for row in spark.read.format("delta").load(out).collect()]
    found = {os.path.relpath(row["path"], root): row for row in rows}
    assert len(found) == len(rows), "a file is in the output more than once"
    return found


def _errors(spark: SparkSession, queue: str) -> dict[str, str]:
    dead = DeltaQueue.open(spark, queue).dead().collect()
    return {Path(row["path"]).name: row["_error"] for row in dead}


def test_every_file_is_read_once_and_then_only_what_changed(
    spark: SparkSession, queue_path: str, source: Path, out: str
) -> None:
    """A first run reads what it can, a second one only what is new or changed."""
    steps: list[Progress] = []

    first = ingest(spark, source, queue_path, out, on_progress=steps.append)

    assert (first.discovered, first.inserted, first.known) == (7, 7, 0)
    assert (first.processed, first.dead, first.waiting) == (5, 2, 0)
    assert first.tenants == (
        TenantSummary(tenant="", discovered=1, inserted=1, processed=1),
        TenantSummary(tenant="acme", discovered=4, inserted=4, processed=3, dead=1),
        TenantSummary(tenant="zeta", discovered=2, inserted=2, processed=1, dead=1),
    )
    assert [step.phase for step in steps[:2]] == ["discover", "enqueue"]
    assert (steps[-1].done, steps[-1].total) == (7, 7)
    assert _errors(spark, queue_path) == {
        "gone": "Reject: cannot be read: FileNotFoundError: No such file or directory",
        "pipe": "Reject: cannot be read: not a regular file",
    }
    rows = _rows(spark, out, source)
    assert rows["acme/in/a.py"]["functions"] == ["A.f"]
    assert str(rows["acme/in/b.py"]["parse_error"]).startswith("line 1")
    assert rows["acme/in/c.bin"]["lines"] is None
    assert (rows["top.txt"]["lines"], rows["top.txt"]["tenant"]) == (2, "")

    (source / "top.txt").write_text("one\ntwo\nthree")
    (source / "zeta" / "new.txt").write_text("new")
    second = ingest(spark, source, queue_path, out)

    assert (second.discovered, second.inserted, second.known) == (8, 2, 6)
    assert (second.processed, second.dead) == (2, 0)
    table = spark.read.format("delta").load(out)
    assert table.count() == 7
    assert table.where(F.col("path").endswith("top.txt")).count() == 2


def test_files_are_found_as_rows(spark: SparkSession, source: Path) -> None:
    """Discovery gives a row a file, with the keys of the queue."""
    rows = {Path(row["path"]).name: row for row in discover(spark, source).collect()}

    a = source / "acme" / "in" / "a.py"
    assert rows["a.py"]["tenant"] == "acme"
    assert rows["a.py"]["directory"] == str(a.parent)
    assert rows["a.py"]["size"] == a.stat().st_size
    assert rows["a.py"]["modified_at"].timestamp() == pytest.approx(a.stat().st_mtime, abs=1e-5)


def test_empty_directory_is_no_error(
    spark: SparkSession, queue_path: str, place: str, out: str
) -> None:
    """A source without files makes the queue, and does nothing."""
    (Path(place) / "empty").mkdir()

    done = ingest(spark, Path(place) / "empty", queue_path, out)

    assert (done.discovered, done.processed, done.tenants) == (0, 0, ())


def test_source_that_is_missing_makes_no_queue(
    spark: SparkSession, queue_path: str, place: str, out: str
) -> None:
    """A wrong source is refused before anything is written."""
    with pytest.raises(InvalidArgumentError, match="is not a directory"):
        ingest(spark, f"{place}/missing", queue_path, out)

    assert not Path(queue_path).exists()


@pytest.fixture
def many(place: str) -> Iterator[Path]:
    """Make a tree of twenty files in six directories."""
    root = Path(place) / "many"
    for number in range(20):
        path = root / f"t{number % 3}" / f"d{number % 2}" / f"f{number:02}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
    yield root
    shutil.rmtree(root)


@pytest.mark.slow
def test_killed_run_leaves_each_file_once(
    spark: SparkSession, queue_path: str, many: Path, out: str
) -> None:
    """A run that is killed as it wrote to the output is finished by the next, without repeats."""
    command = [sys.executable, "-m", "spark_queue.cli", "ingest", str(many), "--limit", "10"]
    command += ["--queue", queue_path, "--output", out]
    with subprocess.Popen(command, start_new_session=True) as run:  # noqa: S603 - our own command
        # The first commit makes the table, the second is what the first claim wrote.
        _wait_for(Path(out) / "_delta_log" / f"{1:020}.json", run)
        os.killpg(run.pid, signal.SIGKILL)

    done = ingest(spark, many, queue_path, out)

    assert len(_rows(spark, out, many)) == 20
    assert (done.inserted, done.known, done.dead, done.waiting) == (0, 20, 0, 0)
    states = DeltaQueue.open(spark, queue_path).status().groupBy("_state").count().collect()
    assert [tuple(row) for row in states] == [("acked", 20)]


def _wait_for(path: Path, run: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 240
    while not path.exists():
        assert run.poll() is None, "the run ended before it wrote"
        assert time.monotonic() < until, f"{path} was not written"
        time.sleep(0.005)
