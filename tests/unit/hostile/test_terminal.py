"""Hostile texts of a queue, shown by every command, each found by itself."""

from __future__ import annotations

import io
import logging
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from spark_queue import LocalQueue, QueueConfig, RetryPolicy, cli
from spark_queue.cli import main
from spark_queue.cli.app import app
from spark_queue.cli.display import SafeConsole
from spark_queue.clock import ManualClock, SystemClock
from tests.unit.hostile import values
from tests.unit.hostile.values import EVIL, FORGED, LINES, RAW

#: Good values of what must be given, by its name.
_GIVEN = {
    "name": ["./q"],
    "where": ["true"],
    "handler": ["json:dumps"],
    "to": ["./clone"],
    "schema": ["more int"],
    "seq": ["1"],
    "step": ["1"],
    "reader": ["second"],
    "files": ["."],
    "checkpoint": ["./checkpoint"],
    "source": ["."],
    "queue": ["./q"],
    "output": ["./output"],
    "directory": ["./beside"],
    "work": ["./q"],
    "names": ["./q"],
    "queues": ["./q"],
}

#: Values of options that change what is shown.
_OPTIONS = {
    "as_of": ["9"],
    "item": ["1"],
    "reader": ["second"],
    "weight": [f"{LINES}=2"],
    "window": ["7200"],
    "where": [f"tenant = '{EVIL}'", "tenant = t5", "_seq = 2"],
    "on_duplicate": ["raise"],
    "start": [EVIL],
    "operator": [EVIL],
    "host": ["0.0.0.0"],  # noqa: S104 - it is printed only
    "table": [EVIL],
    "files": [f"{EVIL}.csv", "rows.csv"],
    "config": [f"{EVIL}.yaml"],
    "html": ["report.html"],
    "exclude": [EVIL],
    "textfile": ["x.prom"],
}

#: What makes a command end that goes on until it is stopped.
_ENDING = {"top": ["--looks=1"], "serve": ["--port=0"], "wait": ["--timeout=0"]}

_GROUP: Any = typer.main.get_command(app)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a queue whose every text is hostile, and in which much went wrong."""
    place = tmp_path_factory.mktemp("hostile")
    clock = ManualClock(SystemClock().now() - timedelta(hours=4))
    config = QueueConfig(
        dedup_key="id",
        fair_key="tenant",
        group_key="run",
        max_attempts=2,
        weights={LINES: 0.001},
        retry=RetryPolicy(backoff="fixed", delay=timedelta(seconds=1)),
        lease=timedelta(minutes=5),
    )
    columns = "id string, tenant string, run string"
    queue = LocalQueue.create(str(place / "q"), columns, config, durability="process", clock=clock)
    runs = [f"{LINES}{number}" for number in range(40)]
    queue.enqueue([_row(f"{LINES}{at}", LINES, run) for at, run in enumerate([*runs, *runs])])
    queue.enqueue([_row(f"x{at}", "quiet", None) for at in range(60)])
    queue.enqueue([_row(f"{LINES}0", LINES, runs[0])])
    queue.claim(40, worker_id=LINES).ack()
    clock.advance(timedelta(hours=3, minutes=20))
    for number in range(2):
        for claim in (queue.claim(34, worker_id=f"{LINES}{number}") for _ in range(2)):
            claim.nack(f"{LINES}boom {number}")
            clock.advance(timedelta(minutes=3))
    queue.claim(30, worker_id=LINES)
    queue.cancel({"id": "x59"})
    queue.configure(weights={LINES: 0.002})
    queue.reader("second")
    clock.advance(timedelta(minutes=20))
    return place


def _row(key: str, tenant: str, run: str | None) -> dict[str, Any]:
    return {"id": key, "tenant": tenant, "run": run}


@pytest.fixture(autouse=True)
def here(hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a directory with a copy of that queue."""
    shutil.copytree(hostile / "q", tmp_path / "q")
    (tmp_path / "rows.csv").write_text(f'id,tenant,run\n"{EVIL}",a,b\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("spark_queue.serve.server.run", lambda _app, _at: None)
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("command", sorted(_GROUP.commands))
def test_no_command_shows_a_control_sign(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No text moves the cursor, turns the order of signs, or stands as a line of ours."""
    for number, argv in enumerate(_asked(command)):
        Path("q").rename("kept")
        shutil.copytree("kept", "q")
        with pytest.raises(SystemExit):
            main(argv)
        shutil.rmtree("q", ignore_errors=True)
        Path("kept").rename("q")
        said = capsys.readouterr()
        shown = said.out + said.err
        assert shown.strip(), argv
        assert not RAW.findall(shown), (argv, number, RAW.search(shown), shown[:3_000])
        assert not re.search(rf"^\W*{FORGED}\W*$", shown, re.MULTILINE), (argv, shown[:3_000])


def _asked(command: str) -> Iterator[Sequence[str]]:
    """Return how a command is tried: with what it must have, and with each option that it may."""
    params: list[click.Parameter] = _GROUP.commands[command].params
    must = [one for one in params if one.required]
    yield _argv(command, {str(one.name): _GIVEN[str(one.name)][0] for one in must}, ())
    for one in params:
        given = {str(other.name): _GIVEN[str(other.name)][0] for other in must}
        if getattr(one, "is_flag", False) and one.name not in ("json", "verbose"):
            yield _argv(command, given, [one.opts[0]])
        for value in _OPTIONS.get(str(one.name), ()):
            yield _argv(command, {**given, str(one.name): value}, ())


def _argv(command: str, given: dict[str, str], flags: Sequence[str]) -> Sequence[str]:
    params = {str(one.name): one for one in _GROUP.commands[command].params}
    options, behind = [], []
    for name, value in given.items():
        if isinstance(params[name], click.Argument) or not params[name].opts[0].startswith("-"):
            behind.append(value)
        else:
            options.append(f"{params[name].opts[0]}={value}")
    ending = _ENDING.get(command, [])
    return [command, *options, *flags, *ending, "--engine=local", "--", *behind]


def test_no_command_prints_beside_the_console() -> None:
    """What is printed goes through one console, or through the display, which escape it."""
    package = Path(str(cli.__file__)).parent
    elsewhere = re.compile(r"\bprint\(|\becho\(|\bstd(out|err)\.write\(|\bConsole\(")
    found = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if elsewhere.search(file.read_text(encoding="utf-8"))
    }
    # JSON and errors; the version; counts of a claim.
    assert found == {"display.py", "app.py", "progress.py"}


def test_a_proposed_command_is_safe_to_paste(capsys: pytest.CaptureFixture[str]) -> None:
    """No text of an item stands in it, and it means the items that it was proposed for."""
    (proposed,) = {*_proposed(["report", "./q"], capsys), *_proposed(["doctor", "./q"], capsys)}

    words = shlex.split(proposed)
    assert words[:2] == ["spark-queue", "redrive"]
    dead = LocalQueue.open("./q").stats().dead
    with pytest.raises(SystemExit):
        main([*words[1:], "--engine=local"])
    assert capsys.readouterr().out.startswith(f"{dead} items redriven")


def _proposed(argv: Sequence[str], capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    with pytest.raises(SystemExit):
        main(argv)
    for line in capsys.readouterr().out.splitlines():
        command = line.strip().removeprefix("$ ")
        if command.startswith("spark-queue"):
            assert command.isprintable()
            assert "\\" not in command
            if "redrive" in command:
                yield command


def test_a_terminal_with_colours_is_as_safe() -> None:
    """Rich steers the terminal, and no text does."""
    seen = io.StringIO()
    console = SafeConsole(file=seen, force_terminal=True, width=120)
    table = Table("[red]head[/red]", title=EVIL)
    table.add_row(LINES.replace("[", r"\["), style="bold")

    console.print(table, Text(EVIL, style="red"), EVIL.replace("[", r"\["), markup=True)
    with Live(Text(EVIL), console=console):
        pass

    without_style = re.sub(r"\x1b\[(\d+(;\d+)*)?m|\x1b\[\?25[lh]|\r\x1b\[2K", "", seen.getvalue())
    assert "\x1b[31m" in seen.getvalue()
    assert not RAW.findall(without_style)
    assert r"\x1b[2J" in without_style


@pytest.mark.parametrize("name", ["report.html", "notebook", "checkup", "explanation"])
def test_no_page_shows_a_control_sign(name: str) -> None:
    """Files of HTML and what notebooks show have the escapes that a terminal has."""
    queue = LocalQueue.open("./q")
    made: dict[str, Callable[[], str]] = {
        "report.html": lambda: queue.report().html() + queue.report_item(1).html(),
        "notebook": lambda: _in_notebook(queue.report()) + _in_notebook(queue.report_item(1)),
        "checkup": lambda: _in_notebook(queue.doctor()),
        "explanation": lambda: _in_notebook(queue.explain(1)),
    }
    shown = made[name]()
    assert r"\x1b" in shown
    assert not RAW.findall(shown)


def _in_notebook(shown: Any) -> str:
    return str(shown._repr_html_()) + repr(shown)


def test_no_line_of_the_log_is_forged(capsys: pytest.CaptureFixture[str]) -> None:
    """A text in a record, or in a traceback below it, is escaped, whoever formats it."""
    logging.disable(logging.NOTSET)
    seen = logging.StreamHandler(io.StringIO())
    logger = logging.getLogger("spark_queue")
    logger.addHandler(seen)
    try:
        Path(LINES).read_bytes()
    except OSError as exc:
        argument = [str(exc)]
        logger.exception("%s: %d %s", LINES, 5, *argument)
        # Whoever logs is not in the way of what is logged.
        logger.warning("%s", values.Mute())
    finally:
        logger.removeHandler(seen)
    said = seen.stream.getvalue() + capsys.readouterr().err
    first, *_ = said.splitlines()
    assert first.count(FORGED) == 2
    assert ": 5 " in first
    assert "a Mute" in said
    assert not RAW.findall(said)
