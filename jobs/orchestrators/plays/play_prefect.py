"""Prefect beside a queue: see orchestrators.py, which runs this where Prefect is installed."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

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
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas import FlowRun
from prefect.settings import PREFECT_API_URL, temporary_settings

#: The program, in the folder of a play.
_FLOW = "prefect_flow.py"

_NIGHTLY = [sys.executable, _FLOW, "first"]


def play_kills(place: Path) -> None:
    """Kill the process of the flow twice, and run the night again each time."""
    with _server(place, "enqueue", "read") as variables:
        for code in (-9, -9, 0):
            done = subprocess.run(_NIGHTLY, cwd=place, env=variables, check=False)  # noqa: S603 - our own
            expect(done.returncode, code)
        # A process cannot say of itself that it was killed.
        expect(sorted(_states(variables)), ["COMPLETED", "RUNNING", "RUNNING"])
    expect_faults(place, "enqueue", "read")
    expect_each_once(place, 24)


def play_retry(place: Path) -> None:
    """Kill the process of a run that is served; its runner says so, and it is retried by its id."""
    with _server(place, "read") as variables, running([*_NIGHTLY[:2], "serve"], place, variables):
        wait_for("the deployment", lambda: _has_deployment(variables))
        run(
            ["prefect", "deployment", "run", "nightly/nights", "-p", "night=first"],
            place,
            variables,
        )
        wait_for("the crash", lambda: _states(variables) == ["CRASHED"])
        (one,) = _runs(variables)
        run(["prefect", "flow-run", "retry", str(one.id)], place, variables)
        wait_for("the end", lambda: _states(variables) == ["COMPLETED"])
    expect_faults(place, "read")
    expect_each_once(place, 24)


def play_lost_answer(place: Path) -> None:
    """Let a task fail when its items are there; it is retried in its run."""
    with _server(place, "answer") as variables:
        run(_NIGHTLY, place, variables)
        expect(_states(variables), ["COMPLETED"])
    expect_faults(place, "answer")
    expect_each_once(place, 24)


def play_dead(place: Path) -> None:
    """Fail the run where a file of a tenant is dead, also when its tasks are tried again."""
    with _server(place, "answer") as variables:
        run(_NIGHTLY, place, variables)
        queue = queue_at(place)
        queue.enqueue([{"tenant": "bob", "path": "late"}])
        queue.claim(1).dead("ValueError: it is empty")
        done = subprocess.run(_NIGHTLY, cwd=place, env=variables, check=False)  # noqa: S603 - our own
        expect(done.returncode, 1)
        expect(queue.redrive("true"), 1)
        run(_NIGHTLY, place, variables)
        expect(sorted(_states(variables)), ["COMPLETED", "COMPLETED", "FAILED"])
    expect(queue.counts()["acked"], 25)


@contextmanager
def _server(place: Path, *faults: str) -> Iterator[dict[str, str]]:
    """Keep a server of Prefect running for the program of a place."""
    shutil.copy(PROGRAMS / _FLOW, place)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    settings = {"PREFECT_HOME": str(place / "home"), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    variables = variables_of(place, *faults, PREFECT_API_URL=url, **settings)
    command = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with running(command, place, variables):
        wait_for("the server", lambda: _is_up(url))
        yield variables


def _is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:  # noqa: S310 - our own
            return bool(answer.status == 200)  # noqa: PLR2004 - as HTTP has it
    except OSError:
        return False


@contextmanager
def _client(variables: dict[str, str]) -> Iterator[SyncPrefectClient]:
    url = {PREFECT_API_URL: variables["PREFECT_API_URL"]}
    with temporary_settings(url), get_client(sync_client=True) as client:
        yield client


def _runs(variables: dict[str, str]) -> list[FlowRun]:
    with _client(variables) as client:
        return client.read_flow_runs()


def _states(variables: dict[str, str]) -> list[str]:
    return [one.state_type.value for one in _runs(variables)]


def _has_deployment(variables: dict[str, str]) -> bool:
    with _client(variables) as client:
        return bool(client.read_deployments())


PARTS = {
    "killed after an enqueue and at work, the night run again each time": play_kills,
    "killed while served: its runner says so, and the run is retried by its id": play_retry,
    "an enqueue whose answer is lost, retried by the task": play_lost_answer,
    "a dead file of a tenant fails the run, until it is redriven": play_dead,
}

if __name__ == "__main__":
    play_parts(PARTS, sys.argv[1:])
