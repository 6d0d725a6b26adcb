"""Airflow beside a queue: see orchestrators.py, which runs this where Airflow is installed."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from night import find_files
from playing import (
    PROGRAMS,
    expect,
    expect_each_once,
    expect_faults,
    play_parts,
    queue_at,
    run,
    running,
    variables_of,
    wait_for,
)

from spark_queue import LocalQueue, QueueConfig

#: Airflow as it is, but for what a busy machine needs: patience.
_SETTINGS = {
    "API__HOST": "127.0.0.1",
    "API__WORKERS": "1",
    "CORE__DAGBAG_IMPORT_TIMEOUT": "900",
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "CORE__LOAD_EXAMPLES": "False",
    "CORE__PARALLELISM": "4",
    "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "900",
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "3000",
    "WORKERS__EXECUTION_API_TIMEOUT": "300",
}


def play_kills(place: Path) -> None:
    """Kill the processes of two tasks; the scheduler retries them, and the sensor goes on."""
    with _airflow(place, "enqueue", "read") as variables:
        _trigger(place, variables, "nightly", "first")
        wait_for("the files", lambda: _came(place))
        # As its schedule does, in ten minutes at the latest.
        _trigger(place, variables, "reader", "at-once")
        wait_for("the end of the run", lambda: _states(place).get("first") == "success")
        wait_for("the end of the rest", lambda: not queue_at(place).wait("true", 0).left)
        expect_faults(place, "enqueue", "read")
        expect_each_once(place, 24)
    expect(_tries(place, "first", "enqueue") > 1, True)


def play_dead(place: Path) -> None:
    """Let the files of a run die while its sensor looks; the sensor fails."""
    variables = _prepare(place)
    with running(["airflow", "dags", "test", "nightly"], place, variables):
        wait_for("the files", lambda: _came(place))
        wait_for("a look", lambda: "up_for_reschedule" in _looks(place))
        queue_at(place).claim(24).dead("it is empty")
        wait_for("a run that fails", lambda: "failed" in _states(place).values())
    expect(_looks(place), ["failed"])


def play_limit(place: Path) -> None:
    """Stop a reader before its time; the next one goes on with what it gave back."""
    variables = _prepare(place)
    queue, count = _enqueue(place), 24
    _read(place, {**variables, "NIGHT_SECONDS": "0.5"}, minutes=0.05)
    counts = queue.counts()
    expect(0 < counts["acked"] < count, True)
    expect((counts["ready"], counts["claimed"]), (count - counts["acked"], 0))
    expect(set(queue.status()["_attempts"].to_pylist()), {0})
    expect(set(queue.status()["_losses"].to_pylist()), {0})
    _read(place, variables, minutes=5)
    expect_each_once(place, count)


def _came(place: Path) -> int:
    return sum(queue_at(place).counts().values()) if LocalQueue.exists(place / "files") else 0


def _enqueue(place: Path) -> LocalQueue:
    """Make the queue as the program does, with files."""
    config = QueueConfig(fair_key="tenant", dedup_key="path")
    LocalQueue.create(place / "files", "tenant string, path string", config)
    queue_at(place).enqueue(find_files("by hand"))
    return queue_at(place)


def _read(place: Path, variables: dict[str, str], minutes: float) -> None:
    given = json.dumps({"minutes": minutes})
    run(["airflow", "dags", "test", "reader", "--conf", given], place, variables)


def _trigger(place: Path, variables: dict[str, str], dag: str, name: str) -> None:
    run(["airflow", "dags", "trigger", dag, "--run-id", name], place, variables)


def _states(place: Path, dag: str = "nightly") -> dict[str, str]:
    rows = _rows(place, "SELECT run_id, state FROM dag_run WHERE dag_id = ?", dag)
    return dict(rows)


def _tries(place: Path, run_id: str, task: str) -> int:
    """Return how often a task of a run was tried."""
    text = "SELECT try_number FROM task_instance WHERE run_id = ? AND task_id = ?"
    ((number,),) = _rows(place, text, run_id, task)
    return int(number)


def _looks(place: Path) -> list[str]:
    """Return the state of the sensor."""
    rows = _rows(place, "SELECT state FROM task_instance WHERE task_id = ?", "files_are_read")
    return [state for (state,) in rows]


def _rows(place: Path, text: str, *values: str) -> list[tuple]:
    with closing(sqlite3.connect(f"file:{place}/home/airflow.db?mode=ro", uri=True)) as database:
        return database.execute(text, values).fetchall()


def _prepare(place: Path) -> dict[str, str]:
    (place / "dags").mkdir()
    shutil.copy(PROGRAMS / "airflow_dag.py", place / "dags")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = _SETTINGS | {
        "API__BASE_URL": f"http://127.0.0.1:{port}",
        "API__PORT": str(port),
        "CORE__DAGS_FOLDER": str(place / "dags"),
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
    }
    own = {f"AIRFLOW__{name}": value for name, value in settings.items()}
    variables = variables_of(place, AIRFLOW_HOME=str(place / "home"), **own)
    run(["airflow", "db", "migrate"], place, variables)
    run(["airflow", "dags", "reserialize"], place, variables)
    return variables


@contextmanager
def _airflow(place: Path, *faults: str) -> Iterator[dict[str, str]]:
    """Run the scheduler and all beside it, until the API answers."""
    variables = _prepare(place) | {"NIGHT_FAULTS": " ".join(faults)}
    port = int(variables["AIRFLOW__API__PORT"])
    with running(["airflow", "standalone"], place, variables):
        wait_for("an API server", lambda: _answers(port))
        yield variables


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


PARTS = {
    "killed after an enqueue and at work, retried by the scheduler; a sensor goes on": play_kills,
    "files that die while a sensor looks: it fails": play_dead,
    "a worker task that stops before its time, and the next one": play_limit,
}

if __name__ == "__main__":
    play_parts(PARTS, sys.argv[1:])
