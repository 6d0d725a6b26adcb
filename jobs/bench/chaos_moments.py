"""Moments at which a process that writes a queue kills itself, each named.

A moment is a place in the library that a process of a job patches in itself, and nobody else: at
the n-th time that it comes there, it ends as by SIGKILL.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spark_queue.commands import recovery
from spark_queue.log import delta_log, maintenance
from spark_queue.log.delta import commits, integrity
from spark_queue.log.disk import append_files, delta_rs, leftover_files, liveness, write_lock

#: Seconds within which a process ends that is inside a library of Rust, where nothing is patched.
_INSIDE = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class Doom:
    """When a process kills itself."""

    moment: str
    """One of :data:`MOMENTS`."""
    nth: int
    """At which time that it comes there."""


class _Countdown:
    """Counts how often a process comes to a moment."""

    def __init__(self, nth: int) -> None:
        self._left = nth

    def is_over(self) -> bool:
        """Tell whether this is the time."""
        self._left -= 1
        return self._left == 0


_Install = Callable[[_Countdown, random.Random], None]


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _before(owner: Any, name: str) -> _Install:
    """Kill before a function is called."""

    def install(countdown: _Countdown, _: random.Random) -> None:
        was = getattr(owner, name)

        def killing(*args: Any, **named: Any) -> Any:
            if countdown.is_over():
                _kill()
            return was(*args, **named)

        setattr(owner, name, killing)

    return install


def _after(owner: Any, name: str) -> _Install:
    """Kill when a function has returned."""

    def install(countdown: _Countdown, _: random.Random) -> None:
        was = getattr(owner, name)

        def killing(*args: Any, **named: Any) -> Any:
            answer = was(*args, **named)
            if countdown.is_over():
                _kill()
            return answer

        setattr(owner, name, killing)

    return install


def _inside(owner: Any, name: str, is_meant: Callable[..., bool]) -> _Install:
    """Kill while a function runs, or soon after: by an alarm that nobody handles."""

    def install(countdown: _Countdown, rng: random.Random) -> None:
        was = getattr(owner, name)

        def killing(*args: Any, **named: Any) -> Any:
            if is_meant(*args) and countdown.is_over():
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, _INSIDE))
            return was(*args, **named)

        setattr(owner, name, killing)

    return install


def _is_due(log: Any) -> bool:
    newest = log.newest(None) or 0
    return bool(newest - (commits.summed_up(log.directory) or 0) >= log.interval)


def _always(*_: Any) -> bool:
    return True


_WAIT = getattr(write_lock, "_Wait")  # noqa: B009 - as are the names below

#: What a process can be killed at, in the order of a step.
MOMENTS: dict[str, _Install] = {
    "life begun": _after(liveness, "_begin"),
    "gate taken": _before(_WAIT, "for_turn"),
    "turn taken": _after(_WAIT, "for_turn"),
    "file written": _after(append_files.Appending, "written"),
    "commit written": _before(os, "link"),
    "commit linked": _after(os, "link"),
    "commit made": _after(append_files.Appending, "commit"),
    "commit noted": _after(integrity, "note"),
    "checkpoint": _inside(delta_log.DeltaLog, "sum_up", _is_due),
    "checkpoint written": _before(delta_rs, "put_file"),
    "merging": _inside(maintenance, "_merging", _always),
    "merged file written": _after(delta_log.DeltaLog, "written"),
    "files replaced": _after(delta_log.DeltaLog, "replace"),
    "file swept": _after(leftover_files, "_remove"),
    "recovery": _after(recovery, "_settle"),
}

#: Those that a process does not come to often: at the first time.
_RARE = frozenset({"life begun", "recovery"})

#: Those of upkeep, to which one comes more often who does more of it.
UPKEEP = frozenset(
    (
        *("checkpoint", "checkpoint written", "merging"),
        *("merged file written", "files replaced", "file swept"),
    )
)


def drawn(rng: random.Random) -> Doom:
    """Draw a moment."""
    moment = rng.choice(list(MOMENTS))
    return Doom(moment=moment, nth=1 if moment in _RARE | UPKEEP else rng.randrange(1, 9))


def install(doom: Doom, rng: random.Random) -> None:
    """Have this process kill itself at a moment."""
    MOMENTS[doom.moment](_Countdown(doom.nth), rng)
