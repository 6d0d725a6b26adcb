"""The doctor on the command line: what it prints, and what a deploy is told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_queue.cli.app import command
from spark_queue.cli.commands.checkup import checkups
from spark_queue.cli.display import fit
from spark_queue.local_queue import LocalQueue
from spark_queue.log.schema import FORMAT_VERSION
from tests.conftest import CommandLine

#: Runs the doctor on this process's engine: ``(exit code, what it printed)``.
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(command_line: CommandLine) -> Run:
    """Run the doctor without a session."""

    def run(*argv: str) -> tuple[int, str]:
        ended = command_line("doctor", *argv)
        return ended.code, ended.out or ended.err

    return run


def _queue(place: Path, name: str) -> LocalQueue:
    made = LocalQueue.create(place / name, "id string", durability="process")
    made.enqueue({"id": "a"})
    return made


def test_a_healthy_queue_lets_a_deploy_go_on(run: Run, tmp_path: Path) -> None:
    """Nothing is found in a line, and the code is 0."""
    place = _queue(tmp_path, "well").name

    code, said = run(place)

    first, second, third = said.splitlines()
    assert (code, first) == (0, f"{place}: nothing found")
    assert re.fullmatch(rf"  [\d.]+ KiB on disk, .+ free; format {FORMAT_VERSION}", second)
    assert re.fullmatch(r"  commits [\d.]+ KiB, rows [\d.]+ KiB", third)


def test_findings_are_shown_with_what_mends_them(run: Run, tmp_path: Path) -> None:
    """A warning is 4, an error 5; of several queues the worst counts, and each has its lines."""
    paused, cut = _queue(tmp_path, "paused"), _queue(tmp_path, "cut")
    paused.pause()
    code, said = run(paused.name)
    lines = said.splitlines()
    assert (code, lines[0]) == (4, f"{paused.name}: 1 finding")
    assert lines[3].startswith("  warning: paused, since 20")
    assert lines[5] == f"    $ spark-queue resume {paused.name}"

    Path(cut.name, "status", "_delta_log", f"{2:020}.json").touch()
    cut.close()
    code, said = run(paused.name, cut.name)
    assert code == 5
    assert "error: damaged" in said
    assert "\n    $ mkdir -p " in said
    assert "not checked: " in said


def test_a_queue_that_cannot_be_examined_hides_no_other(run: Run, tmp_path: Path) -> None:
    """The others are shown, then it and why; an error of another counts for more."""
    well, paused = _queue(tmp_path, "well").name, _queue(tmp_path, "paused")
    paused.pause()
    missing, told = str(tmp_path / "missing"), "there is no such queue"

    code, said = run(well, missing, paused.name)

    lines = said.splitlines()
    assert (code, lines[:4:3]) == (2, [f"{well}: nothing found", f"{paused.name}: 1 finding"])
    at = lines.index(f"{missing}: cannot be examined")
    assert told in " ".join(" ".join(lines[at + 1 :]).split())
    found = json.loads(run(missing, well, "--json")[1])
    assert [one["queue"] for one in found["queues"]] == [well]
    (failed,) = found["failed"]
    assert (failed["queue"], failed["error"]) == (missing, "QueueNotFoundError")
    code, said = run(missing)
    assert (code, said.startswith("spark-queue: ")) == (2, True)


def test_a_program_gets_one_object(run: Run, tmp_path: Path) -> None:
    """It has the exit code, and of each queue the findings, what was not checked, and its size."""
    queue = _queue(tmp_path, "q")
    queue.pause()

    code, said = run(queue.name, "--json")

    found: dict[str, Any] = json.loads(said)
    assert found["exit"] == code == 4
    (one,) = found["queues"]
    assert (one["queue"], one["unchecked"]) == (queue.name, {})
    assert one["storage"]["size"] > 1_000
    assert one["storage"]["free"] > 0
    assert one["storage"]["format"] == one["storage"]["newest_format"] == FORMAT_VERSION
    (finding,) = one["findings"]
    assert {"id", "severity", "what", "since", "command", "reader"} == set(finding)


@pytest.mark.parametrize(
    ("command", "prompt"),
    [
        ("spark-queue resume q", "$"),
        ("DESCRIBE HISTORY delta.`q`", "SQL>"),
        ('spark.conf.unset("x")', ">>>"),
    ],
)
def test_a_command_shows_where_it_is_typed(command: str, prompt: str) -> None:
    """What is SQL or Python is not pasted into a shell."""
    finding = {"severity": "info", "id": "x", "what": "it is", "since": None, "reader": "r"}
    found = {"queue": "q", "findings": [{**finding, "command": command}], "unchecked": {}}

    lines = checkups({"queues": [found]})

    assert lines[1:] == ["  info: x, reader r", "    it is", f"    {prompt} {command}"]


def test_sentences_fit_a_terminal_and_commands_stay_whole() -> None:
    """A long sentence has several lines of eighty columns at most; a path in it is not broken."""
    path = "/srv/" + "x" * 90
    what = "the lease of a worker ran out, and " + "nobody gets its items, " * 9
    command = "spark-queue process " + "y" * 90
    finding = {
        "severity": "warning",
        "id": "x",
        "what": f"{what}{path}",
        "since": None,
        "reader": "",
        "command": command,
    }
    unchecked = {f"check-{at}": what for at in range(20)}
    found = {"queue": "q", "findings": [finding], "unchecked": unchecked}

    shown = [line for line in checkups({"queues": [found]}) if isinstance(line, str)]
    lines = [part for line in shown for part in fit(line, 80)]

    assert {line.strip() for line in lines if len(line) > 80} == {path, f"$ {command}"}
    assert " ".join(" ".join(lines).split()).count(what.strip()) == 2


def test_what_is_no_queue_and_no_time_is_wrong_usage(run: Run, tmp_path: Path) -> None:
    """A place without a queue, and a threshold that is none, are 2."""
    assert run(str(tmp_path / "none"))[0] == 2
    assert run(_queue(tmp_path, "q").name, "--oldest", "-1")[0] == 2


def test_what_only_spark_can_look_at_is_a_warning(run: Run, tmp_path: Path) -> None:
    """Where checks are not made a deploy does not go on as if they were."""
    queue = _queue(tmp_path, "q")
    log = Path(queue.name, "queue", "_delta_log")
    (log / f"{2:020}.json").write_text('{"protocol":{"minReaderVersion":1,"minWriterVersion":5}}\n')
    queue.close()

    code, said = run(queue.name, "--engine", "local")

    assert code == 4
    assert "not checked: foreign-rows" in said.replace("files-gone, ", "")


def test_the_doctor_is_a_command() -> None:
    """It is among those that help shows."""
    assert "doctor" in command().commands
