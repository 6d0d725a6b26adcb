"""Hostile texts for every option and argument of every command, each found by itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from spark_queue import LocalQueue, QueueConfig
from spark_queue.cli import main
from spark_queue.cli.app import app
from tests.unit.hostile.verdicts import READABLE, outcome_of

TEXTS = {
    "empty": "",
    "blank": " ",
    "word": "nobody's word",
    "minus one": "-1",
    "zero": "0",
    "2**63": str(2**63),
    "digits": "9" * 400,
    "nan": "nan",
    "inf": "inf",
    "1e999": "1e999",
    "1e308": "1e308",
    "surrogate": "\ud800",
    "stray byte": "a\udcff",
    "NUL": "a\x00b",
    "escape": "\x1b[2J",
    "lines": "a\nb",
    "quotes": "'\"`;--",
    "parentheses": "(" * 300,
    "long text": "x" * 2_000,
    "last instant": "9999-12-31T23:59:59-14:00",
    "first instant": "0001-01-01T00:00:00+14:00",
    "key and weight": "a=nan",
    "no key": "=1",
    "path": "nowhere/at/all",
    "sign": "--",
}

#: Good values of what must be given, by its name.
_GOOD = {
    "name": "./q",
    "where": "_seq = 99",
    "handler": "json:dumps",
    "to": "./clone",
    "schema": "id int",
    "seq": "1",
    "step": "1",
    "reader": "r",
    "looks": "1",
    "work": "./q",
    "files": ".",
    "checkpoint": "./checkpoint",
    "source": ".",
    "queue": "./q",
    "output": "./output",
    "names": "./q",
    "queues": "./q",
}

#: Commands that go on until they are stopped, with what makes them end.
_ENDING = {"top": ["--looks", "1"], "wait": ["--timeout", "0"]}

#: Commands that are not run here, each with the reason.
_ELSEWHERE = {"serve": "it answers until it is stopped; its tests give its options bad values"}

#: Commands that take seconds: texts that a path is refused for, or that it may be.
_FEW = {"demo": {"surrogate", "NUL", "long text", "path"}}

#: What is asked for without end is done without end.
_ENDLESS = {("top", "looks", "2**63"), ("top", "looks", "digits")}

_GROUP: Any = typer.main.get_command(app)
_TRIED = [
    (name, parameter)
    for name, command in sorted(_GROUP.commands.items())
    for parameter in command.params
    if name not in _ELSEWHERE and not getattr(parameter, "is_flag", False)
]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a directory with a queue that is gone after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    queue = LocalQueue.create("./q", "id int", QueueConfig(dedup_key="id"), durability="process")
    queue.enqueue([{"id": 1}, {"id": 2}])


def _named(value: Any) -> str:
    return value if isinstance(value, str) else str(value.name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("command", "parameter"), _TRIED, ids=_named)
def test_no_text_ends_in_a_traceback(
    command: str, parameter: click.Parameter, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command does what it is asked, or says in a few lines why not, and ends with its code."""
    found = []
    for named, text in TEXTS.items():
        if (command, parameter.name, named) in _ENDLESS or named not in _FEW.get(command, TEXTS):
            continue
        argv = list(_argv(command, parameter, text))
        raised = outcome_of(lambda: main(argv))  # noqa: B023 - it is called here
        said = capsys.readouterr()
        code = raised.code if isinstance(raised, SystemExit) else raised
        if not isinstance(code, int | None) or "Traceback" in said.err or len(said.err) > READABLE:
            found.append(f"{named}: {code!r:.200} {said.err[-300:]!r}")
    assert not found, "\n".join(found)


def _argv(command: str, tried: click.Parameter, text: str) -> Iterator[str]:
    yield command
    behind = []
    for one in _GROUP.commands[command].params:
        value = text if one is tried else _GOOD.get(str(one.name), "1")
        if not (one is tried or one.required):
            continue
        if isinstance(one, click.Argument) or not one.opts[-1].startswith("-"):
            behind.append(value)
        else:
            yield f"{one.opts[0]}={value}"
    if str(tried.name) != "engine":
        yield "--engine=local"
    if tried.name not in ("looks", "timeout"):
        yield from _ENDING.get(command, [])
    yield "--"
    yield from behind
