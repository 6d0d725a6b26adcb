"""What README and documents show is run as it is printed, in an empty directory."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command

from spark_queue.cli import main
from spark_queue.cli.app import app
from spark_queue.delta_queue import DeltaQueue
from tests.programs import run_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOT = Path(__file__).parents[2]
_PAGES = (_ROOT / "README.md", *sorted((_ROOT / "docs").glob("*.md")))

#: A trace as users have one; the rest of what the commands read they make themselves.
_TRACE = "1 0 -1 9 1 -1 -1 1 -1 -1 1 ann 1 -1 -1 -1 -1 -1\n"

#: Commands of a checkout, which are lanes of the gate, take hours, or start a Spark of their own.
_OF_A_CHECKOUT = re.compile(r"python3 \.ci/|python jobs/bench/|pip wheel |PYSPARK_PYTHON=\S+ ")


#: Those, and our own on queues that a page has not made.
_ELSEWHERE = re.compile(
    rf"{_OF_A_CHECKOUT.pattern}|pip install |databricks bundle |python -m |spark-(queue|submit) "
)

#: Pages that show what each line prints.
_PRINTING = {"streams", "status-table", "control-table", "starving-tenants", "files-once"}
_PRINTING |= {"beyond-one-log"}


def _commands_of_ours() -> dict[str, Any]:
    group: Any = get_command(app)
    return dict(group.commands)


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def _program(page: Path) -> str:
    """Return the Python blocks of a page as one program; those with a prompt are doctests."""
    blocks = [text for text in _blocks(page, "python") if not text.startswith((">>> ", "%"))]
    return "\n".join(blocks)


def _commands(page: Path) -> Iterator[str]:
    """Yield the commands of a page; in a block with a prompt all else is what they print."""
    for block in _blocks(page, "console"):
        lines = block.replace("\\\n", " ").splitlines()
        prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        yield from prompted or lines


@pytest.fixture
def here(place: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a directory in which nothing is."""
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    return Path(place)


@pytest.mark.spark
def test_program_of_the_readme_runs(here: Path) -> None:
    """The programs in README, one after the other in a process, print what stands below them."""
    (here / "readme.py").write_text(_program(_ROOT / "README.md"), encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(_ROOT)}
    ran = run_python("readme.py", cwd=here, env=env)

    shown = "".join(_blocks(_ROOT / "README.md", "text"))
    # Spark ends a table with an empty line, which a page need not have.
    lines = [line for line in ran.stdout.splitlines() if line]
    assert (ran.returncode, lines) == (0, [line for line in shown.splitlines() if line]), ran.stderr


@pytest.mark.spark
@pytest.mark.parametrize(
    "page", [page for page in _PAGES[1:] if _program(page)], ids=lambda page: page.stem
)
def test_program_of_a_page_runs(
    spark: SparkSession, here: Path, page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The programs of every document run as they are printed, one after the other."""
    assert list(here.iterdir()) == []
    program = _program(page)
    if page.stem == "databricks":
        # The one catalog of open-source Delta has another name.
        spark.sql("CREATE SCHEMA ops")
        program = program.replace("main.ops", "spark_catalog.ops")

    exec(program, {"spark": spark})  # noqa: S102 - our own program

    if page.stem in _PRINTING:
        said = re.findall(r"^print\(.*\)  # (.*)$", program, re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == said
    if page.stem == "databricks":
        DeltaQueue.drop(spark, "spark_catalog.ops.files")
        spark.sql("DROP SCHEMA ops")


@pytest.mark.spark
def test_commands_of_the_readme_run(spark: SparkSession, here: Path) -> None:
    """The commands in the README, one after the other, succeed as they are printed."""
    (here / "TRACE.swf").write_text(_TRACE)
    ran = [_run(spark, line) for line in _commands(_ROOT / "README.md")]

    assert ran.count("spark-queue") >= 8
    states = DeltaQueue.open(spark, "./mails").stats()
    assert (states.acked, states.ready) == (1, 0)


def _run(spark: SparkSession, line: str) -> str:
    words = shlex.split(line, comments=True)
    if _OF_A_CHECKOUT.match(line):
        return "elsewhere"
    if words[0] != "spark-queue":
        subprocess.run(line, shell=True, check=True, timeout=60)  # noqa: S602 - our own line
        return "shell"
    with pytest.raises(SystemExit) as ended:
        main(words[1:], sessions=lambda _verbose: spark)
    assert not ended.value.code, line
    return words[0]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.stem)
def test_commands_that_run_elsewhere_name_what_is_there(page: Path) -> None:
    """A command that is not run here is of a checkout, or ours, with scripts and options there."""
    lines = [line for line in _commands(page) if _ELSEWHERE.match(line)]

    assert [missing for line in lines for missing in _missing(line)] == []
    if page.name != "README.md":
        assert lines == list(_commands(page))


def _missing(line: str) -> list[str]:
    """Return the scripts and options of a command that are nowhere."""
    words = shlex.split(line, comments=True)
    if words[0] == "spark-queue":
        known = {option for param in _commands_of_ours()[words[1]].params for option in param.opts}
        return [word for word in words[2:] if word.startswith("--") and word not in known]
    scripts = [word for word in words if word.startswith(("jobs/", "conf/", ".ci/"))]
    gone = [script for script in scripts if not (_ROOT / script).is_file()]
    own = "".join((_ROOT / word).read_text() for word in words if word.startswith("jobs/bench/"))
    options = [word.removeprefix("--") for word in words if own and word.startswith("--")]
    return gone + [option for option in options if not re.search(rf"\b{option}\b", own)]
