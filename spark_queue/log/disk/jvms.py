"""JVMs that write for a process, and may outlive it for a moment.

A lock on this machine's disk ends with the process that has it. The JVM of a driver that was killed
notices that a moment later, and ends what it had begun: its commit then takes the place of one that
others have made meanwhile, because Spark renames a commit into its place. So a process that lets
Spark write leaves a trace of its JVM in the lock, and one that finds a trace waits for the end of
that JVM.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Bytes of a trace: a pid, and when that process was started, in ticks of its system's clock.
WIDTH = 40

#: Of a process about which nothing is known.
NOBODY = b" " * WIDTH

_ASKED = "SELECT java_method('java.lang.ProcessHandle', 'current')"

#: Where Linux says when a process was started, counted from behind the name of its program.
_STARTED = 19

_known: WeakKeyDictionary[SparkSession, bytes] = WeakKeyDictionary()


def trace_of(spark: SparkSession) -> bytes:
    """Return the trace of a session's JVM, where that runs on this machine.

    It is :data:`NOBODY` over Spark Connect, whose server outlives its clients anyway; where a
    session lets nobody ask; and on systems that do not tell when a process was started.
    """
    if spark not in _known:
        _known[spark] = _ask(spark)
    return _known[spark]


def still_running(trace: bytes) -> int | None:
    """Return the pid of the JVM that has left a trace; ``None`` where it has ended, or none did."""
    pid, _, started = trace.decode("ascii", "replace").strip().partition(" ")
    if not pid.isdigit() or _start_time(int(pid)) != started.strip():
        return None
    return int(pid)


def _ask(spark: SparkSession) -> bytes:
    with suppress(Exception):
        # Over Connect there is no context to ask.
        if str(spark.sparkContext.master).startswith("local"):
            return trace(int(spark.sql(_ASKED).collect()[0][0]))
    return NOBODY


def trace(pid: int) -> bytes:
    """Return the trace of a process of this machine."""
    started = _start_time(pid)
    return NOBODY if started is None else b"%-20d%-20s" % (pid, started.encode())


def _start_time(pid: int) -> str | None:
    """Return when a process was started; ``None`` where there is none, or it has ended."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    state, *others = said.rpartition(")")[2].split()
    # What has ended but was not asked how does nothing more.
    return None if state == "Z" else others[_STARTED - 1]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_known.clear)
