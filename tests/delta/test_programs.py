"""Programs of a page that share a queue are run at once, each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

import spark_queue
from spark_queue.session import delta_coordinate

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "three-programs.md"
_STREAMS = _ROOT / "docs" / "streams.md"
_PROGRAM = re.compile(r'```python title="(\w+\.py)"\n(.*?)```', re.DOTALL)

#: What the web service is told of that the job has, too; and of what only it has.
_KNOWN = [f"user{number}@example.org" for number in range(5)]
_OWN = [f"guest{number}@example.org" for number in range(25)]

_ADDED = 2_000


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Write down the programs of the page in an empty directory, and make the queue."""
    for name, text in _PROGRAM.findall(_PAGE.read_text(encoding="utf-8")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    made = _started(tmp_path, "make.py")
    assert made.wait(60) == 0
    return tmp_path


def _started(folder: Path, name: str, *args: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(_ROOT), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, name, *args]
    with (folder / f"{name}.out").open("w", encoding="utf-8") as told:
        return subprocess.Popen(command, cwd=folder, env=env, stdout=told, text=True)  # noqa: S603


@contextmanager
def _running(folder: Path, name: str, *args: str) -> Iterator[subprocess.Popen[str]]:
    started = _started(folder, name, *args)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def _said(folder: Path, name: str) -> list[str]:
    return (folder / f"{name}.out").read_text(encoding="utf-8").splitlines()


def _port(folder: Path) -> int:
    until = time.monotonic() + 60
    while not (said := _said(folder, "web.py")):
        assert time.monotonic() < until
        time.sleep(0.05)
    return int(said[0])


def _posted(port: int, address: str) -> int:
    asked = HTTPConnection("127.0.0.1", port, timeout=60)
    asked.request("POST", "/", json.dumps({"address": address, "body": "Hello"}))
    status = asked.getresponse().status
    asked.close()
    return status


@pytest.mark.slow
@pytest.mark.spark
def test_three_programs_work_on_one_queue(here: Path) -> None:
    """A service, a worker and a job of Spark share a queue: each mail is sent exactly once."""
    with (
        _running(here, "job.py") as job,
        _running(here, "web.py", "0"),
        _running(here, "worker.py"),
    ):
        port = _port(here)
        answers = {address: _posted(port, address) for address in (*_KNOWN, *_OWN)}
        again = [_posted(port, address) for address in _OWN]
        assert job.wait(300) == 0

    assert {answers[address] for address in _OWN} == {202}
    assert set(again) == {409}
    everybody = {*_OWN, *(f"user{number}@example.org" for number in range(_ADDED))}
    assert Counter(_said(here, "worker.py")) == Counter(everybody)
    counts = spark_queue.open(here / "mails").counts()
    assert (counts["acked"], counts["ready"], counts["claimed"]) == (len(everybody), 0, 0)
    known = sum(answers[address] == 202 for address in _KNOWN)
    job_said = _said(here, "job.py")
    assert job_said[0] == f"added {_ADDED - known} known {known}"
    assert any("acked" in line and str(len(everybody)) in line for line in job_said)


@contextmanager
def _server(folder: Path, command: str) -> Iterator[int]:
    """Start the server of Spark Connect that a command is for, at a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    env = {**os.environ, "PYTHONPATH": str(_ROOT), "PYSPARK_PYTHON": sys.executable}
    words = shlex.split(command.replace("15002", str(port)))
    with (folder / "server.out").open("w", encoding="utf-8") as said:
        started = subprocess.Popen(words, cwd=folder, env=env, stdout=said, stderr=said)  # noqa: S603
    try:
        _wait_for(port, started)
        yield port
    finally:
        started.terminate()
        started.wait()


def _wait_for(port: int, started: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 300
    while not _is_open(port):
        assert started.poll() is None
        assert time.monotonic() < until
        time.sleep(0.2)


def _is_open(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
@pytest.mark.spark
def test_client_works_on_a_queue_by_a_server(tmp_path: Path) -> None:
    """The command starts a server that knows Delta, and the client prints what it says it does."""
    text = _STREAMS.read_text(encoding="utf-8")
    ((name, program),) = _PROGRAM.findall(text)
    (command,) = re.findall(r"^spark-submit --class .*$", text, re.MULTILINE)
    assert delta_coordinate() in command
    (tmp_path / name).write_text(program, encoding="utf-8")

    with _server(tmp_path, command) as port:
        client = _started(tmp_path, name, str(port), f"{tmp_path}/queue")
        assert client.wait(300) == 0

    said = re.findall(r"^ *print\(.*\)  # (.*)$", program, re.MULTILINE)
    assert len(said) == 2
    assert _said(tmp_path, name) == said
