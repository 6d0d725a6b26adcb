"""What the help of commands shows, and what a shell completes."""

from __future__ import annotations

import itertools
import sys

import pytest

from spark_queue.cli import main
from spark_queue.cli.app import command
from tests.programs import run_python

_EVERY = sorted(command().commands)

#: Answers a shell, and tells what came with it.
_COMPLETION = """
import sys
from spark_queue.cli import main
try:
    main()
except SystemExit:
    heavy = ("pyspark", "py4j", "pandas", "pyarrow", "duckdb", "deltalake", "numpy", "yaml")
    print(sorted(name for name in heavy if name in sys.modules), file=sys.stderr)
"""


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def _help(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("words", [(), *((name,) for name in _EVERY)])
def test_help_fits_a_terminal(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    """No line is wider than eighty columns, paragraphs fill their lines, no flag has a type."""
    lines = _help(capsys, *words)

    assert max(map(len, lines)) <= 80
    assert not any(kind in line for line in lines for kind in ("<bool>", "BOOLEAN"))
    (flag,) = [line for line in lines if " --help " in line]
    assert flag.split()[2:4] == ["Show", "this"]
    prose = [line.rstrip() for line in itertools.takewhile(lambda x: x[:1] == " ", lines[1:])]
    for line, then in itertools.pairwise(prose):
        assert not line or not then or len(f"{line} {then.split()[0]}") > 79, "it is filled"


def test_commands_are_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    """Each command is in one panel, beside those that are for the same."""
    found: dict[str, list[str]] = {}
    panel = ""
    for line in _help(capsys):
        if line.startswith("╭─ "):
            panel = line.strip("╭─╮ ")
        elif line.startswith("│ ") and line[2] != " " and line[2] != "-":
            found.setdefault(panel, []).append(line.split()[1])

    assert list(found) == ["Begin", "Work", "Look", "Change items", "Change a queue", "Try out"]
    assert found["Change items"] == ["redrive", "cancel", "purge", "undo"]
    assert sorted(name for names in found.values() for name in names) == _EVERY


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("spark-queue pu", ["purge"]),
        ("spark-queue configure --we", ["--weight"]),
        ("spark-queue process ./q --per ", ["item", "batch"]),
    ],
)
def test_a_shell_completes_quickly(typed: str, offered: list[str]) -> None:
    """Commands, options and their choices are completed, and nothing heavy is imported for that."""
    words = typed.split(" ")
    asked = {"COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    done = run_python(
        "-c",
        _COMPLETION,
        env={"PYTHONPATH": ":".join(sys.path), "_SPARK_QUEUE_COMPLETE": "complete_bash", **asked},
        check=True,
    )
    assert (done.stdout.split(), done.stderr.strip()) == (offered, "[]")


def test_a_shell_is_told_how(capsys: pytest.CaptureFixture[str]) -> None:
    """The script for a shell is printed, also where it is not known which shell that is."""
    options = [line.split()[1] for line in _help(capsys) if line.startswith("│ --")]
    assert options == ["--version", "--install-completion", "--show-completion", "--help"]
    done = run_python(
        "-m",
        "spark_queue",
        env={"PYTHONPATH": ":".join(sys.path), "_SPARK_QUEUE_COMPLETE": "source_zsh"},
        check=True,
    )
    assert "compdef _spark_queue_completion spark-queue" in done.stdout
