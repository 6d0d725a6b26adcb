"""dbt beside a queue: see orchestrators.py, which runs this where dbt is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.metadata import files
from pathlib import Path

import duckdb
from playing import (
    PROGRAMS,
    expect,
    expect_each_once,
    expect_faults,
    play_parts,
    queue_at,
    run,
    variables_of,
)

#: dbt, with the faults of a night in its process.
_DBT = [sys.executable, "-c", "import night; from dbt.cli.main import cli; cli()"]


def play_kill(place: Path) -> None:
    """Kill dbt when the items of a model are in the queue, and build again."""
    variables = _prepare(place, "enqueue")
    for code in (-9, 0):
        expect(_build(place, variables), code)
    expect_faults(place, "enqueue")
    again = queue_at(place).enqueue(
        [{"tenant": "ann", "path": "late"}], batch=("files of first", 1)
    )
    expect(again.repeated and again.repeated.inserted, 24)
    _work(place)
    expect_each_once(place, 24)
    expect(_build(place, variables), 0)
    rows = _rows(place, "SELECT tenant, state, items FROM state_by_tenant ORDER BY tenant")
    expect(rows, [("ann", "acked", 12), ("bob", "acked", 12)])
    expect(_rows(place, "SELECT count(*), max(outcome) FROM enqueued"), [(24, "inserted")])


def play_tests(place: Path) -> None:
    """Build where an item is dead, and where one waits for too long: the tests say so."""
    variables = _prepare(place)
    expect(_build(place, variables), 0)
    queue = queue_at(place)
    queue.claim(1).dead("ValueError: it is empty")
    words = ("--vars", json.dumps({"oldest": 0}))
    expect(_build(place, variables, *words), 1)
    expect(_failures(place), ["no_item_is_dead", "no_item_waits_for_long"])
    rows = _rows(place, "SELECT tenant, state, items FROM state_by_tenant ORDER BY ALL")
    expect(rows, [("ann", "dead", 1), ("ann", "ready", 11), ("bob", "ready", 12)])
    expect(queue.redrive("true"), 1)
    _work(place)
    expect(_build(place, variables, *words), 0)


def _prepare(place: Path, *faults: str) -> dict[str, str]:
    """Make an empty queue and the project; return the environment of dbt."""
    project = place / "project"
    shutil.copytree(PROGRAMS / "dbt_project", project)
    (project / "macros").mkdir()
    variables = variables_of(place, *faults, HOME=str(place))
    keys = ["--schema", "tenant string, path string", "--dedup-key", "path", "--fair-key", "tenant"]
    run(["spark-queue", "create", str(place / "files"), *keys], place, variables)
    words = ["-m", "spark_queue.report.publishing", str(place / "files"), "--form", "dbt"]
    macro = run([sys.executable, *words], place, variables)
    (project / "macros" / "spark_queue_snapshot.sql").write_text(macro, encoding="utf-8")
    # As DuckDB's own server would install it.
    found = files("duckdb-extension-delta") or ()
    packed = next(file.locate() for file in found if file.name.endswith(".duckdb_extension"))
    run(
        [sys.executable, "-c", f"import duckdb; duckdb.execute(\"INSTALL '{packed}'\")"],
        place,
        variables,
    )
    return variables


def _build(place: Path, variables: dict[str, str], *words: str) -> int:
    command = [*_DBT, "build", "--profiles-dir", ".", *words]
    done = subprocess.run(  # noqa: S603 - our own words
        command, cwd=place / "project", env=variables, check=False, stdout=subprocess.DEVNULL
    )
    return done.returncode


def _failures(place: Path) -> list[str]:
    told = json.loads((place / "project" / "target" / "run_results.json").read_text("utf-8"))
    return sorted(
        one["unique_id"].split(".")[2] for one in told["results"] if one["status"] == "fail"
    )


def _rows(place: Path, query: str) -> list[tuple]:
    with duckdb.connect(str(place / "warehouse.duckdb"), read_only=True) as warehouse:
        return warehouse.execute(query).fetchall()


def _work(place: Path) -> None:
    queue_at(place).process(
        lambda item: {"path": item["path"], "size": len(item["path"])},
        returns="path string, size int",
        output=str(place / "sizes"),
    )


PARTS = {
    "a model enqueues its rows, killed, built again": play_kill,
    "tests over the views: an item is dead, one waits too long": play_tests,
}

if __name__ == "__main__":
    play_parts(PARTS, sys.argv[1:])
