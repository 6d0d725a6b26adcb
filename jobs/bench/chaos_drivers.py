"""Drivers with Spark, as those see them who start and kill them; nothing of Spark is imported."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from kills import command

#: Seconds in which a JVM ends by itself whose driver was killed.
_PATIENCE = 20.0

#: What a driver does.
_SCRIPT = str(Path(__file__).with_name("chaos_driver.py"))


@dataclass(slots=True)
class DriverProcess:
    """A driver in a process of its own, with its JVM; it is used as one that was forked."""

    place: Path
    life: int
    seed: int
    is_alone: bool
    """Whether it is killed without its JVM, which then ends by itself."""
    ready: Connection = field(init=False)
    """Says when it begins to work."""
    sentinel: int = field(init=False)
    """Is ready to be read when it has ended."""
    _process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        """Start it."""
        reads, writes = os.pipe()
        words = [str(self.place), str(self.life), str(self.seed), str(writes)]
        self._process = subprocess.Popen(  # noqa: S603 - our own script
            command(_SCRIPT, *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(writes,),
            start_new_session=True,
        )
        os.close(writes)
        self.ready = Connection(reads, writable=False)
        self.sentinel = os.pidfd_open(self._process.pid)

    def is_alive(self) -> bool:
        """Tell whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill it, with its JVM unless that is to outlive it."""
        if self.is_alone:
            self._process.kill()
        else:
            os.killpg(self._process.pid, signal.SIGKILL)

    def join(self) -> None:
        """Wait for its end."""
        self._process.wait()

    @property
    def exitcode(self) -> int | None:
        """How it has ended."""
        return self._process.returncode

    def close(self) -> None:
        """Forget it; its JVM may go on for a moment."""
        os.close(self.sentinel)

    def end(self) -> None:
        """Return when nothing is left of its JVM, which is killed if it does not end by itself."""
        until = time.monotonic() + _PATIENCE
        with suppress(ProcessLookupError):
            while time.monotonic() < until:
                os.killpg(self._process.pid, 0)
                time.sleep(0.05)
            os.killpg(self._process.pid, signal.SIGKILL)
