"""Processes that are threads of one, which a search lets go on one at a time, from stop to stop.

Each has what a process has for itself: what it remembers of a queue, its locks and its life. They
stop where the library looks at what others write, and before it writes what others look at.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from orders_process import Ground, Process
from orders_search import Effect, Search
from spark_queue.commands import claims
from spark_queue.log import delta_log
from spark_queue.log.delta import completeness, version_note
from spark_queue.log.disk import append_files, liveness, open_table, write_lock
from spark_queue.log.disk.liveness import looking_at
from spark_queue.log.disk.write_lock import LockFile
from spark_queue.state import steps

#: Seconds after which a thread that does not stop is a fault of the search itself.
_STUCK = 60.0

_WAIT: Any = getattr(write_lock, "_Wait")  # noqa: B009 - as are the names below
_TURNSTILE: Any = getattr(write_lock, "_Turnstile")  # noqa: B009

_GATE, _TURN = "_writer.next", "_writer.lock"

#: Later than whatever came before a run.
_LATER = 1_000_000

#: Moments at which a process may be killed, in the order of a step.
MOMENTS = ("turn taken", "file written", "commit linked", "turn given back")


class _Ended(BaseException):
    """Ends a thread whose process was killed, or whose run is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doom:
    """When a process is killed."""

    number: int
    """Which process."""
    moment: str
    """One of :data:`MOMENTS`."""
    nth: int = 1
    """At which time that it comes there."""
    is_life_first: bool = False
    """Whether its life is seen to be over before the lock that it holds for a step is free."""


class _Actor:
    """A process in a run."""

    def __init__(
        self, world: World, number: int, process: Process, work: Callable[[], None]
    ) -> None:
        self.number, self.process, self.next = number, process, _START
        self.effects: list[Effect] = []
        self.is_done = self.is_over = self._is_killed = False
        self._world, self._work = world, work
        self._names = itertools.count()
        self._left = world.doom.nth if world.doom and world.doom.number == number else 0
        self._may, self._has = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go_on(self) -> list[Effect]:
        """Let it go on until it stops, and return what it has done."""
        self.effects = [self.next]
        self.process.enter()
        self._may.release()
        if not self._has.acquire(timeout=_STUCK):
            raise RuntimeError(f"process {self.number} is stuck after {self.next}")
        return self.effects

    def stop_before(self, effect: Effect) -> None:
        """Wait until the search lets this happen."""
        self.next = effect
        self._has.release()
        self._may.acquire()
        if self.is_over:
            raise _Ended

    def pass_by(self, moment: str) -> None:
        """Be killed here, if it is the moment."""
        doom = self._world.doom
        if self._left and doom is not None and doom.moment == moment:
            self._left -= 1
            if not self._left:
                self._die(is_life_first=doom.is_life_first)

    def new_name(self) -> str:
        """Return a name that it gives to nothing else, and the same in all runs."""
        return f"{self.number}-{next(self._names)}"

    def end(self) -> None:
        """Leave the run where it is."""
        if not self.is_done:
            self.is_over = True
            self.go_on()
        self._thread.join(_STUCK)

    def _run(self) -> None:
        self._may.acquire()
        try:
            if not self.is_over:
                self._work()
        except _Ended:
            if self._is_killed and not self.is_over:
                self._lose_life()
        self.is_done = True
        self._has.release()

    def _die(self, *, is_life_first: bool) -> None:
        self._is_killed = True
        if is_life_first and self.process.turns:
            self._lose_life()
        raise _Ended

    def _lose_life(self) -> None:
        try:
            self.stop_before(Effect("write", "lives"))
        except _Ended:
            return
        self.process.end_life()
        self._world.deaths.setdefault(self.number, self._world.time())


_START = Effect("read", "nothing")


class World:
    """A directory, and processes that work in it.

    Parameters
    ----------
    ground : Ground
        The directory; it is set back before each run.
    processes : mapping
        By number.
    is_honoured : bool
        Whether the right to write is waited for; or else only the link of a commit keeps two
        writers apart.
    doom : Doom, optional
        Who is killed, and when.
    """

    def __init__(
        self,
        ground: Ground,
        processes: Mapping[int, Process],
        *,
        is_honoured: bool = True,
        doom: Doom | None = None,
    ) -> None:
        self.doom = doom
        self.deaths: dict[int, int] = {}
        """When the life of a process was seen to be over."""
        self.links: list[tuple[str, int]] = []
        """The commits of a run in their order: of which log, and which version."""
        self._ground = ground
        self._first, self._is_honoured = dict(processes), is_honoured
        self.processes: dict[int, Process] = dict(processes)
        self._actors: dict[int, _Actor] = {}
        self._ticks = _LATER

    def time(self) -> int:
        """Return an instant that is later than all before."""
        self._ticks += 1
        return self._ticks

    def play(self, search: Search, works: Mapping[int, Callable[[], None]]) -> bool:
        """Play a run, and tell whether it was new to its end."""
        self._begin()
        self._actors = {n: _Actor(self, n, self.processes[n], work) for n, work in works.items()}
        try:
            while next_ := {n: it.next for n, it in self._actors.items() if not it.is_done}:
                able = frozenset(n for n, effect in next_.items() if self._is_possible(effect))
                if not able:
                    raise RuntimeError(f"all wait: {next_}")
                chosen = search.chosen(next_, able)
                if chosen is None:
                    return False
                self._running = self._actors[chosen]
                search.went(self._running.go_on())
            return True
        finally:
            self._running = None
            for actor in self._actors.values():
                actor.end()

    def comes(self, kind: str, target: str) -> None:
        """Stop the process that comes to something that others may notice."""
        if self._running is not None:
            self._running.stop_before(Effect(kind, target))  # type: ignore[arg-type]

    def passes(self, moment: str) -> None:
        """Kill the process that comes to a moment, if it is its last."""
        if self._running is not None:
            self._running.pass_by(moment)

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Have the library stop where it is to stop."""
        clock = SimpleNamespace(sleep=lambda _: None, monotonic=time.monotonic)
        with ExitStack() as patches:
            patches.enter_context(Process().running())
            for owner, name, around in (
                (delta_log, "newest_version", self._looks),
                (open_table, "newest_version", self._looks),
                (completeness, "trace", self._looks),
                (open_table, "opened", self._looks),
                (version_note, "read", self._looks),
                (liveness, "has_ended", self._asks_who_lives),
                (append_files.Appending, "written", self._writes),
                (_WAIT, "_poll", self._waits),
                (_TURNSTILE, "leave", self._leaves),
            ):
                real = getattr(owner, name)
                patches.enter_context(mock.patch.object(owner, name, around(real)))
            patches.enter_context(mock.patch.object(os, "link", self._links(os.link)))
            patches.enter_context(mock.patch.object(steps, "time", clock))
            patches.enter_context(mock.patch.object(claims, "new_claim_id", self._names))
            yield

    _running: _Actor | None = None

    def _begin(self) -> None:
        """Set everything back."""
        self.deaths, self.links, self._ticks = {}, [], _LATER
        self._ground.restore()
        self.processes = {number: first.copied() for number, first in self._first.items()}
        for process in self.processes.values():
            process.begin_life()

    def _names(self) -> str:
        return "" if self._running is None else self._running.new_name()

    def _is_possible(self, effect: Effect) -> bool:
        if effect.kind != "take":
            return True
        try:
            with looking_at(effect.target) as is_free:
                return is_free
        except FileNotFoundError:
            return True

    def _may_write(self, directory: Path) -> bool:
        actor = self._running
        return actor is None or f"{directory}/{_TURN}" in actor.process.turns.values()

    def _looks(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Stop before the commits of a table are looked at, where others may be making some."""

        def look(directory: Path, *more: Any) -> Any:
            if not self._may_write(directory):
                self.comes("read", directory.name)
            return real(directory, *more)

        return look

    def _links(self, real: Callable[..., None]) -> Callable[..., None]:
        def link(old: Path, new: Path) -> None:
            self.comes("write", new.parent.parent.name)
            real(old, new)
            self.links.append((new.parent.parent.name, int(new.stem)))
            self.passes("commit linked")

        return link

    def _writes(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*given: Any, **named: Any) -> Any:
            done = real(*given, **named)
            self.passes("file written")
            return done

        return write

    def _asks_who_lives(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def ask(directory: Path, name: str) -> Any:
            self.comes("read", "lives")
            return real(directory, name)

        return ask

    def _waits(self, real: Callable[..., None]) -> Callable[..., None]:
        def wait(waiting: Any, file: LockFile, path: str, pause: Callable[[], float]) -> None:
            actor = self._running
            if actor is None:
                real(waiting, file, path, pause)
            elif self._is_honoured and path.endswith(_TURN):
                # Whoever has passed the gate is the only one who waits for the turn.
                if not file.take(path):
                    self.comes("take", path)
                    assert file.take(path)  # noqa: S101 - it was free
                gate = path.replace(_TURN, _GATE)
                actor.effects += [Effect("take", path), Effect("give", gate)]
                actor.process.turns[file] = path
                self.passes("turn taken")
            elif self._is_honoured:
                self.comes("take", path)
                assert file.take(path)  # noqa: S101 - it was free

        return wait

    def _leaves(self, real: Callable[..., None]) -> Callable[..., None]:
        def leave(stile: Any) -> None:
            actor = self._running
            turns = {} if actor is None else actor.process.turns
            path = turns.pop(vars(stile)["_turn_file"], None)
            real(stile)
            if actor is not None and path is not None:
                actor.effects.append(Effect("give", path))
                if not actor.is_over:
                    self.passes("turn given back")

        return leave
