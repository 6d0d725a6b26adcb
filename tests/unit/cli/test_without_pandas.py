"""What a process of the command line knows of pandas: nothing, until its handlers import it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from spark_queue import LocalQueue
from tests.programs import run_python

#: A first step of a cold process, by each way in which rows come and go.
_STEPS = """
import sys
import spark_queue
from spark_queue.cli.pandas_hook import leave_pandas_out

leave_pandas_out()
queue = spark_queue.open(sys.argv[1])
queue.enqueue([{"n": 2}])
claim = queue.claim(2)
assert len(claim.rows) == 2
claim.ack()
assert "pandas" not in sys.modules
"""

#: Arrow reads a time of pandas as a time, and takes its NaN for a null, where it knows pandas.
_KNOWN = """
import pyarrow as pa

times = pa.array(pandas.Series(pandas.to_datetime(["2020-01-01", None])))
print(times.type, pa.array(pandas.Series([1.5, None])).null_count)
"""


def _run(program: str, *words: str) -> list[str]:
    done = run_python("-c", textwrap.dedent(program), *words, check=True)
    return done.stdout.split()


@pytest.fixture
def queue(tmp_path: Path) -> str:
    """Return the path of a queue with an item."""
    made = LocalQueue.create(f"{tmp_path}/q", "n int")
    made.enqueue([{"n": 1}])
    return made.name


def test_steps_load_no_pandas_and_arrow_knows_it_once_it_is_imported(queue: str) -> None:
    """A process that uses no frames starts without; another has what Arrow does for frames."""
    told = _run(f"{_STEPS}\nimport pandas\n{_KNOWN}", queue)

    assert told == ["timestamp[ns]", "1"]


def test_pandas_is_known_that_was_there_before(queue: str) -> None:
    """A program that imports pandas first is no other than one that does so later."""
    hide = "from spark_queue.cli.pandas_hook import leave_pandas_out\nleave_pandas_out()"

    told = _run(f"import pandas\n{hide}\n{_KNOWN}", queue)

    assert told == ["timestamp[ns]", "1"]


def test_pandas_is_known_whose_first_import_failed(queue: str, tmp_path: Path) -> None:
    """An import that fails is no last one: the next that does not is told to Arrow."""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "pandas.py").write_text("raise RuntimeError")
    program = f"""
import sys
import spark_queue
from spark_queue.cli.pandas_hook import leave_pandas_out

leave_pandas_out()
spark_queue.open(sys.argv[1]).claim(1)
sys.path.insert(0, sys.argv[2])
try:
    import pandas
except RuntimeError:
    print("failed")
del sys.path[0]
import pandas
{_KNOWN}"""

    assert _run(program, queue, f"{tmp_path}/broken") == ["failed", "timestamp[ns]", "1"]


def test_commands_within_a_program_leave_its_pandas_alone(queue: str) -> None:
    """Also of several queues, one after the other, and a command within a command."""
    program = """
import sys
from spark_queue.cli import main

for command in ("status", "stats", "doctor"):
    try:
        main([command, sys.argv[1], "--json"])
    except SystemExit as ended:
        assert ended.code == 0, command
assert "pandas" not in sys.modules
import pandas
"""
    assert _run(f"{program}{_KNOWN}", queue)[-2:] == ["timestamp[ns]", "1"]
