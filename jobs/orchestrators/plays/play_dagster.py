"""Dagster beside a queue: see orchestrators.py, which runs this where Dagster is installed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

from dagster import DagsterInstance, DagsterRun
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

_DEFINITIONS = ("-f", str(PROGRAMS / "dagster_definitions.py"))

#: What a busy machine needs beside the settings of the page: patience.
_SETTINGS = """
telemetry: {enabled: false}
code_servers: {local_startup_timeout: 600}
"""

_PATIENCE = {"DAGSTER_GRPC_TIMEOUT_SECONDS": "900"}


def play_kills(place: Path) -> None:
    """Kill the processes of both steps; their policy retries them."""
    variables = _prepare(place, "enqueue", "read")
    run(["dagster", "job", "execute", *_DEFINITIONS, "-j", "nightly"], place, variables)
    expect_faults(place, "enqueue", "read")
    expect_each_once(place, 24)


def play_lost_answer(place: Path) -> None:
    """Let a step fail when its items are there; its policy retries it."""
    variables = _prepare(place, "answer")
    run(["dagster", "job", "execute", *_DEFINITIONS, "-j", "nightly"], place, variables)
    expect_faults(place, "answer")
    expect_each_once(place, 24)
    with _instance(place) as instance:
        (record,) = instance.get_run_records()
        events = instance.all_logs(record.dagster_run.run_id)
    made = [one.asset_materialization for one in events if one.asset_materialization]
    told = {one.asset_key.to_user_string(): one.metadata for one in made}
    expect(told["files"]["repeated"].value, True)
    expect((told["sizes"]["read"].value, told["sizes"]["acked"].value), (24, 24))
    expect(told["sizes"]["dead ones"].value.endswith("&state=dead"), True)


def play_runs(place: Path) -> None:
    """Kill two runs with their steps; the daemon retries them."""
    with _daemon(place, "enqueue", "read", "run") as (_, variables), _instance(place) as instance:
        run(["dagster", "job", "launch", *_DEFINITIONS, "-j", "nightly"], place, variables)
        wait_for("a run that ends well", lambda: _states(instance)[-1:] == ["SUCCESS"])
        expect(_states(instance), ["FAILURE", "FAILURE", "SUCCESS"])
        expect(len({one.root_run_id or one.run_id for one in _runs(instance)}), 1)
    expect_faults(place, "enqueue", "read")
    expect_each_once(place, 24)


def play_machine(place: Path) -> None:
    """Kill all of Dagster at work; when the run's time is over it is retried."""
    tags = ["--tags", '{"dagster/max_runtime": "300"}']
    with _daemon(place, NIGHT_SECONDS="3") as (daemon, variables), _instance(place) as instance:
        run(["dagster", "job", "launch", *_DEFINITIONS, "-j", "nightly", *tags], place, variables)
        wait_for("a file", (place / "read").exists)
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()
        expect(_states(instance), ["STARTED"])
    with _daemon(place), _instance(place) as instance:
        wait_for("a run that ends well", lambda: _states(instance)[-1:] == ["SUCCESS"])
        expect(_states(instance), ["FAILURE", "SUCCESS"])
    expect_each_once(place, 24)


def play_sensor(place: Path) -> None:
    """Enqueue thrice; the sensor asks for a run each time, and for none after a restart."""
    variables = _prepare(place)
    for count, is_purged in ((1, False), (2, False), (3, True)):
        if is_purged:
            expect_each_once(place, 48)
            # So many items as come next were there before.
            queue_at(place).purge("true")
        run(
            ["dagster", "asset", "materialize", *_DEFINITIONS, "--select", "files"],
            place,
            variables,
        )
        with _daemon(place), _instance(place) as instance:
            run(["dagster", "sensor", "start", *_DEFINITIONS, "new_files"], place, variables)
            wait_for("a run of the sensor", lambda: len(_asked(instance)) == count)  # noqa: B023
            wait_for("its end", lambda: not queue_at(place).wait("true", 0).left)
    expect(len(_asked(instance)), 3)
    expect_each_once(place, 24, rows=72)


def _asked(instance: DagsterInstance) -> list[str]:
    return [one.run_id for one in _runs(instance) if one.job_name == "work"]


def _states(instance: DagsterInstance) -> list[str]:
    return [one.status.value for one in _runs(instance)]


def _runs(instance: DagsterInstance) -> list[DagsterRun]:
    """Return all runs, the oldest first."""
    return [record.dagster_run for record in instance.get_run_records(ascending=True)]


def _prepare(place: Path, *faults: str, **more: str) -> dict[str, str]:
    home = place / "home"
    home.mkdir(exist_ok=True)
    settings = (PROGRAMS / "dagster.yaml").read_text("utf-8") + _SETTINGS
    (home / "dagster.yaml").write_text(settings, encoding="utf-8")
    return variables_of(place, *faults, DAGSTER_HOME=str(home), **_PATIENCE, **more)


@contextmanager
def _instance(place: Path) -> Iterator[DagsterInstance]:
    with DagsterInstance.from_config(str(place / "home")) as instance:
        yield instance


@contextmanager
def _daemon(
    place: Path, *faults: str, **more: str
) -> Iterator[tuple[Popen[bytes], dict[str, str]]]:
    variables = _prepare(place, *faults, **more)
    with running(["dagster-daemon", "run", *_DEFINITIONS], place, variables) as process:
        yield process, variables


PARTS = {
    "killed after an enqueue and at work, retried by the assets' policy": play_kills,
    "an enqueue whose answer is lost, retried by the asset's policy": play_lost_answer,
    "runs killed whole, after an enqueue and at work, retried by the daemon": play_runs,
    "all of Dagster killed at work and started again: a new run once the old one's time is over": (
        play_machine
    ),
    "a sensor over the queue, the daemon restarted: a run for what is new": play_sensor,
}

if __name__ == "__main__":
    play_parts(PARTS, sys.argv[1:])
