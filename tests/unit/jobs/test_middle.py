"""What the benchmark of the middle counts as work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

_WORK = "import time\nwhile time.process_time() < 0.3: pass"


def test_work_of_children_that_have_ended_counts(script: Callable[[str], Any]) -> None:
    """A worker of Python comes and goes below the JVM, and what it did is not lost."""
    worked_below = script("small_steps").worked_below
    nested = f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {_WORK!r}])"
    before = worked_below()
    child = subprocess.Popen(  # noqa: S603 - a program of our own
        [sys.executable, "-c", f"{nested}\nprint(flush=True)\ntime.sleep(60)"],
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert worked_below() - before > 0.2
    finally:
        child.kill()
        child.communicate()
