"""How often something is forced to the disk, as the system sees it, whoever asks for it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import typer

_CALLS = "fsync,fdatasync,sync_file_range,syncfs"
_CALL = re.compile(rf"\b({_CALLS.replace(',', '|')})\(")

#: Seconds until strace is there.
_PATIENCE = 5.0


def syncs_of(call: Callable[[], object]) -> int | None:
    """Return how many syncs of this process a call makes; ``None`` where nobody can see them."""
    strace = _strace()
    if strace is None or is_traced():
        return None
    with tempfile.NamedTemporaryFile("r", prefix="syncs-") as seen:
        looking = ("-f", "-qq", "-e", f"trace={_CALLS}", "-o", seen.name, "-p", str(os.getpid()))
        with subprocess.Popen((strace, *looking), stderr=subprocess.DEVNULL) as tracer:  # noqa: S603
            is_there = _attached(tracer)
            call()
            tracer.send_signal(signal.SIGINT)
        return len(_CALL.findall(seen.read())) if is_there else None


def slow(command: Sequence[str], seconds: float) -> str | None:
    """Return what a program prints, each of whose syncs takes so much longer; as above."""
    strace = _strace()
    if strace is None:
        return None
    delay = f"inject=fsync,fdatasync:delay_exit={int(seconds * 1e6)}"
    # It stops at these calls alone.
    looking = ("-f", "-qq", "--seccomp-bpf", "-e", "trace=fsync,fdatasync", "-e", delay)
    ran = subprocess.run(  # noqa: S603 - our own program
        (strace, *looking, "-o", os.devnull, *command), check=True, capture_output=True, text=True
    )
    return ran.stdout


def is_traced() -> bool:
    """Tell whether another program looks at the calls of this one already."""
    return "TracerPid:\t0\n" not in Path("/proc/self/status").read_text(encoding="ascii")


@cache
def _strace() -> str | None:
    found = shutil.which("strace")
    if found is None:
        typer.echo("syncs are not counted: strace is not installed", err=True)
    return found


def _attached(tracer: subprocess.Popen[bytes]) -> bool:
    """Wait until all threads of this process are looked at; tell whether they are."""
    until = time.monotonic() + _PATIENCE
    while tracer.poll() is None and time.monotonic() < until:
        threads = list(Path("/proc/self/task").glob("*/status"))
        if all("TracerPid:\t0\n" not in thread.read_text() for thread in threads):
            return True
        time.sleep(0.01)
    return False
