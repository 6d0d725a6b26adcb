"""The command that serves pages: what it prints, what it asks for, and what it refuses."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from starlette.testclient import TestClient

from spark_queue.cli.commands import serving
from spark_queue.local_queue import LocalQueue
from spark_queue.serve import server
from spark_queue.serve.guard import RequestGuard
from tests.conftest import Ended


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[RequestGuard]:
    """Take down what would be served, and serve nothing."""
    apps: list[RequestGuard] = []

    def taken(app: RequestGuard, at: socket.socket) -> None:
        assert at.getsockname()[1]
        apps.append(app)
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "run", taken)
    return apps


@pytest.fixture
def queue(queue_path: str) -> LocalQueue:
    """Make a queue of one item."""
    queue = LocalQueue.create(queue_path, "id string", durability="process")
    queue.enqueue([{"id": "1"}])
    return queue


def _serve(run: Callable[..., Ended], *argv: str) -> dict[str, Any]:
    ended = run("serve", *argv, "--port", "0", "--json", "--engine", "local")
    assert ended.code == 0, ended.err
    shown: dict[str, Any] = json.loads(ended.out)
    return shown


def test_serve_shows_pages_that_only_show(
    run: Callable[..., Ended], served: list[RequestGuard], queue: LocalQueue
) -> None:
    """Without more it listens at this machine alone, has no token, and no actions."""
    shown = _serve(run, queue.name)
    assert shown["token"] is None
    assert shown["url"].startswith("http://127.0.0.1:")
    browser = TestClient(served[0], base_url=shown["url"])
    assert queue.name in browser.get("/").text
    assert browser.get("/sign-in").status_code == 404


def test_a_queue_that_cannot_be_opened_hides_no_other(
    run: Callable[..., Ended], served: list[RequestGuard], queue: LocalQueue
) -> None:
    """It is named at the start and on its pages, and shown when it is mended."""
    damaged = LocalQueue.create(f"{queue.name}2", "id string", durability="process")
    damaged.close()
    commit = Path(damaged.name, "status", "_delta_log", f"{0:020}.json")
    whole = commit.read_bytes()
    commit.write_bytes(b"")

    shown = _serve(run, damaged.name, queue.name, f"{queue.name}3")

    assert set(shown["failed"]) == {damaged.name, f"{queue.name}3"}
    browser = TestClient(served[0], base_url=shown["url"])
    assert "is damaged" in browser.get("/").text
    assert "is damaged" in shown["failed"][damaged.name]
    assert [browser.get(f"/queues/{n}").status_code for n in (0, 1, 2)] == [503, 200, 404]
    commit.write_bytes(whole)
    assert browser.get("/queues/0").status_code == 200
    alone = run("serve", f"{queue.name}3", "--engine", "local")
    assert (alone.code, "there is no such queue" in alone.err) == (2, True)


def test_serve_with_actions_prints_a_token(
    run: Callable[..., Ended], served: list[RequestGuard], queue: LocalQueue
) -> None:
    """The token is another each time, and the form suggests the operator's name."""
    first = _serve(run, queue.name, "--allow-actions", "--operator", "ann")
    assert first["token"] != _serve(run, queue.name, "--allow-actions")["token"]
    browser = TestClient(served[0], base_url=first["url"])
    assert 'value="ann"' in browser.get("/sign-in").text
    origin = {"origin": first["url"].rstrip("/")}
    fields = {"token": first["token"], "operator": "ann", "next": "/queues/0/act/pause"}
    assert "You are ann" in browser.post("/sign-in", data=fields, headers=origin).text


def test_serve_for_others_asks_them_for_the_token(
    run: Callable[..., Ended], served: list[RequestGuard], queue: LocalQueue
) -> None:
    """At any other address who reads has to sign in, and is heard by the names that were given."""
    shown = _serve(run, queue.name, "--host", "0.0.0.0", "--allow-host", "ops.example")  # noqa: S104
    assert shown["token"]
    browser = TestClient(served[0], base_url="http://ops.example")
    assert "Sign in" in browser.get("/").text
    assert browser.get("/", headers={"host": "other.example"}).status_code == 403


def test_an_address_that_is_printed_is_answered(
    run: Callable[..., Ended], queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all addresses one is printed that others can reach, and it is served, as loopback is."""
    answers: list[tuple[str, int]] = []

    def asked(app: RequestGuard, at: socket.socket) -> None:
        running = server.server_of(app)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [at]})
        thread.start()
        port = at.getsockname()[1]
        own = serving.address_of("0.0.0.0")  # noqa: S104 - that is the case
        for name in (own, "127.0.0.1", socket.gethostname(), "other.example"):
            connection = HTTPConnection("127.0.0.1" if name != own else own, port, timeout=60)
            connection.request("GET", "/sign-in", headers={"host": f"{name}:{port}"})
            answers.append((f"http://{name}:{port}/", connection.getresponse().status))
            connection.close()
        running.should_exit = True
        thread.join()

    monkeypatch.setattr(server, "run", asked)

    shown = _serve(run, queue.name, "--host", "0.0.0.0")  # noqa: S104

    assert not shown["url"].startswith("http://0.")
    assert answers[0] == (shown["url"], 200)
    assert [status for _, status in answers] == [200, 200, 200, 403]


def test_serve_says_at_once_that_a_queue_needs_spark(
    run: Callable[..., Ended], served: list[RequestGuard], queue: LocalQueue
) -> None:
    """Where only Spark reads a log, no page of it would be shown: nothing is served without."""
    DeltaTable(f"{queue.name}/queue").alter.add_constraint({"has_step": "_step >= 0"})

    ended = run("serve", queue.name, "--port", "0", "--engine", "local")

    assert (ended.code, "needs a session of Spark" in ended.err) == (2, True), ended.err
    assert served == []


def test_serve_refuses_what_it_cannot_serve(
    run: Callable[..., Ended], served: list[RequestGuard], queue: LocalQueue, monkeypatch: Any
) -> None:
    """A queue that is not there, a port that is taken and a missing package are named at once."""
    assert run("serve", f"{queue.name}x", "--engine", "local").code == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run("serve", queue.name, "--port", port, "--engine", "local")
        assert (ended.code, f"port is {port}" in ended.err) == (2, True)
    ended = run("serve", queue.name, "--allow-actions", "--operator", " ", "--engine", "local")
    assert (ended.code, "operator must be a name" in ended.err) == (2, True)
    monkeypatch.setattr(
        serving, "find_spec", lambda name: None if name == "uvicorn" else find_spec(name)
    )
    ended = run("serve", queue.name, "--engine", "local")
    assert (ended.code, "pip install 'spark-queue[serve]'" in ended.err) == (2, True)
    assert served == []
