"""The page about services, beside what the command line has and does."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from spark_queue.cli.app import app
from spark_queue.local_queue import LocalQueue

_PAGE = (Path(__file__).parents[3] / "docs" / "service.md").read_text(encoding="utf-8")

_HANDLER = """
def send(mail):
    print("sent", mail["address"], flush=True)
"""


def _block(language: str) -> str:
    found: str = re.findall(rf"```{language}\n(.*?)```", _PAGE, re.DOTALL)[0]
    return found


def _unit() -> RawConfigParser:
    unit = RawConfigParser()
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(_block("ini"))
    return unit


def _dockerfile() -> dict[str, str]:
    return dict(line.split(" ", 1) for line in _block("dockerfile").splitlines())


def _deployment() -> dict[str, Any]:
    pod: dict[str, Any] = yaml.safe_load(_block("yaml"))["spec"]["template"]
    return pod


def _commands() -> dict[str, list[str]]:
    """Return the command of each kind of service, in words."""
    image, container = _dockerfile(), _deployment()["spec"]["containers"][0]
    entry = json.loads(image["ENTRYPOINT"])
    return {
        "text": shlex.split(_block("text")),
        "systemd": shlex.split(_unit()["Service"]["ExecStart"]),
        "container": entry + json.loads(image["CMD"]),
        "pod": entry + container["args"],
    }


def _options(words: list[str]) -> dict[str, Any]:
    """Return what the command line takes the words of a command for."""
    program, name, *rest = words
    assert Path(program).name == "spark-queue"
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    found: dict[str, Any] = command.make_context(name, rest, resilient_parsing=False).params
    return found


@pytest.mark.parametrize("kind", ["text", "systemd", "container", "pod"])
def test_each_service_runs_a_command_that_stays(kind: str) -> None:
    """The command line takes its words; it runs without Java, and an item has a limit."""
    options = _options(_commands()[kind])

    assert options["forever"]
    assert options["engine"].value != "spark"
    assert options["item_time_limit"] > 0


def test_a_service_has_longer_to_end_than_an_item_takes() -> None:
    """Else it is killed at its work, and the item is lost once."""
    commands = _commands()
    waits = re.search(r"--stop-timeout (\d+)", _PAGE)
    assert waits is not None
    for kind, seconds in (
        ("systemd", int(_unit()["Service"]["TimeoutStopSec"])),
        ("container", int(waits[1])),
        ("pod", _deployment()["spec"]["terminationGracePeriodSeconds"]),
    ):
        assert seconds > _options(commands[kind])["item_time_limit"], kind


def test_labels_of_the_deployment_are_those_of_its_pods() -> None:
    """Else it is refused."""
    whole = yaml.safe_load(_block("yaml"))["spec"]

    assert whole["selector"]["matchLabels"] == whole["template"]["metadata"]["labels"]


def test_the_line_of_cron_is_a_command() -> None:
    """It is the user's, and runs once an hour."""
    line = re.findall(r"^0 \* \* \* \*  mails  (.*)$", _PAGE, re.MULTILINE)[0]

    _options(shlex.split(line))


def test_the_unit_knows_how_its_worker_ends(tmp_path: Path) -> None:
    """The command works, and the code that it ends with after the signal is a success."""
    (tmp_path / "my_module.py").write_text(_HANDLER)
    place = tmp_path / "mails"
    queue = LocalQueue.create(place, "address string", durability="process")
    queue.enqueue({"address": "ann@example.org"})
    service = _unit()["Service"]
    _, *words = _commands()["systemd"]
    command = [sys.executable, "-m", "spark_queue", *words]
    command[command.index("/srv/queues/mails")] = str(place)
    paths = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)

    with subprocess.Popen(  # noqa: S603 - our own package
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "sent ann@example.org\n"
        assert json.loads(worker.stdout.readline())["acked"] == 1
        worker.send_signal(signal.Signals[service["KillSignal"]])
        worker.communicate(timeout=60)

    assert str(worker.returncode) == service["SuccessExitStatus"]
