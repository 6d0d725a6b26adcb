"""What a process keeps in the temporary directory while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("obstore")

#: Has a copy of a queue on a store, and a database; says so, and ends when it is told to.
_WORKS = """
import sys, spark_queue
from obstore.store import LocalStore
queue = spark_queue.LocalQueue.create("s3://bucket/" + sys.argv[2], "id string",
                                      storage=LocalStore(sys.argv[1]))
queue.enqueue([{"id": "a"}])
from spark_queue.sql import database
database._ONE.connect()
print("works", flush=True)
sys.stdin.readline()
"""


def _start(store: Path, temporary: Path, name: str) -> subprocess.Popen[str]:
    env = {**os.environ, "TMPDIR": str(temporary)}
    words = [sys.executable, "-c", _WORKS, str(store), name]
    process = subprocess.Popen(  # noqa: S603 - a program of this test
        words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "works\n"
    return process


def test_what_a_killed_process_leaves_is_removed_by_the_next_one(tmp_path: Path) -> None:
    """Copies of tables and room to spill; those of a process that runs stay until it ends."""
    store, temporary = tmp_path / "store", tmp_path / "temporary"
    store.mkdir()
    temporary.mkdir()
    with _start(store, temporary, "one") as killed, _start(store, temporary, "two") as runs:
        both = {*temporary.iterdir()}
        killed.kill()
        killed.wait()
        assert {*temporary.iterdir()} == both

        with _start(store, temporary, "three") as third:
            left = both & {*temporary.iterdir()}
            assert 0 < len(left) < len(both)
            third.communicate("end\n")
        assert {*temporary.iterdir()} == left
        runs.communicate("end\n")
    assert (third.returncode, runs.returncode) == (0, 0)
    assert [*temporary.iterdir()] == []
