"""Children that are killed at drawn moments, for jobs that check what is left afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

#: Seconds after a child is ready within which it is killed.
KILL_WITHIN = 25.0


def command(script: str, *words: str) -> list[str]:
    """Return how a command of a script is called."""
    return [sys.executable, str(Path(script)), *words]


def kill_often(
    child: Sequence[str],
    kills: int,
    rng: random.Random,
    ended: Callable[[], object],
    *,
    within: float = KILL_WITHIN,
) -> int:
    """Start a child again and again, and kill it, with its JVM, by SIGKILL at drawn moments.

    Parameters
    ----------
    child : sequence of str
        Its command line. It prints a line when it is ready.
    kills : int
        How many times it is to be killed.
    rng : random.Random
        Draws the moments.
    ended : callable
        Called when a child had finished before it was to be killed, which does not count.
    within : float
        Seconds after it is ready by which it is killed.

    Returns
    -------
    int
        How often it was killed.
    """
    killed = 0
    while killed < kills:
        if _killed(child, rng.uniform(0, within)):
            killed += 1
        else:
            ended()
    return killed


def run(child: Sequence[str], *, capture: bool = False) -> str:
    """Run a child to its end, and return what it printed, if that is captured."""
    out = subprocess.PIPE if capture else subprocess.DEVNULL
    done = subprocess.run(child, stdout=out, text=True, check=True)  # noqa: S603 - our own script
    return done.stdout or ""


def _killed(child: Sequence[str], delay: float) -> bool:
    with subprocess.Popen(  # noqa: S603 - our own interpreter and script
        child, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None  # noqa: S101 - for the type checker: it is a pipe
        process.stdout.readline()
        time.sleep(delay)
        if process.poll() is not None:
            return False
        os.killpg(process.pid, signal.SIGKILL)
        return True
