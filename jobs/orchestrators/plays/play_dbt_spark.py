"""dbt on Spark beside a queue: see orchestrators.py, which runs this beside dbt-spark."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from playing import (
    PROGRAMS,
    expect,
    expect_each_once,
    expect_faults,
    play_parts,
    queue_at,
    rows_of,
    run,
    running,
    variables_of,
    wait_for,
)

#: The program, with the faults of a night in its process.
_PROGRAM = "import night, runpy; runpy.run_path('spark_night.py', run_name='__main__')"


def play_nights(place: Path) -> None:
    """Kill the program when its items are in the queue; build again, with a dead item and after."""
    variables = _prepare(place, "enqueue")
    for code in (-9, 0):
        expect(_build(place, variables), code)
    expect_faults(place, "enqueue")
    queue = queue_at(place)
    queue.claim(1).dead("ValueError: it is empty")
    expect(_build(place, variables), 1)
    expect(_failures(place), ["no_item_is_dead"])
    expect(_states(place), [("ann", "dead", 1), ("ann", "ready", 11), ("bob", "ready", 12)])
    expect(queue.redrive("true"), 1)
    queue.process(
        lambda item: {"path": item["path"], "size": len(item["path"])},
        returns="path string, size int",
        output=str(place / "sizes"),
    )
    expect(_build(place, variables), 0)
    expect(_states(place), [("ann", "acked", 12), ("ann", "dead", 1), ("bob", "acked", 12)])
    expect_each_once(place, 24, redriven=1)


def _prepare(place: Path, *faults: str) -> dict[str, str]:
    """Make an empty queue and the project; return the environment of the program."""
    project = place / "project"
    shutil.copytree(PROGRAMS / "dbt_spark_project", project)
    shutil.copy(PROGRAMS / "spark_night.py", project)
    variables = variables_of(place, *faults)
    keys = ["--schema", "tenant string, path string", "--dedup-key", "path", "--fair-key", "tenant"]
    run(["spark-queue", "create", str(place / "files"), *keys], place, variables)
    return variables


def _build(place: Path, variables: dict[str, str]) -> int:
    """Run the program, and wait until its JVM is gone too, which ends by itself."""
    command = [sys.executable, "-c", _PROGRAM, "first"]
    with running(command, place / "project", variables) as process:
        code = process.wait(3000)
        wait_for("the end of its JVM", lambda: not _is_there(process.pid))
    return code


def _is_there(group: int) -> bool:
    with suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False


def _failures(place: Path) -> list[str]:
    told = json.loads((place / "project" / "target" / "run_results.json").read_text("utf-8"))
    return sorted(
        one["unique_id"].split(".")[2] for one in told["results"] if one["status"] == "fail"
    )


def _states(place: Path) -> list[tuple[str, str, int]]:
    rows = rows_of(place / "warehouse" / "state_by_tenant")
    return sorted((row["tenant"], row["state"], row["items"]) for row in rows)


PARTS = {
    "a program builds on Spark and enqueues, killed, run again; a test sees a dead item": (
        play_nights
    ),
}

if __name__ == "__main__":
    play_parts(PARTS, sys.argv[1:])
