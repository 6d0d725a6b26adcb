"""Work in a child of this process, which may die of it: what it finished is kept.

A handler can end its process: by ``os._exit``, by a fault in native code, by using up the memory.
On an executor that would take the whole task with it, and hide which item it was.
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Literal, Protocol

#: Bytes in front of each answer that say how long it is.
_LENGTH = 8

#: Set in the length of a message that is no answer.
_BESIDE = 1 << 63

_CHUNK = 1 << 16

#: Milliseconds after which a silent child is looked after: what it started may hold its pipe open.
_LOOK = 1_000

#: The same where it may have to be killed during the wait.
_LOOK_FOR_CUT = 50

_DONE = 0

#: It said that it was done; it ended without that; or it said nothing for too long.
_End = Literal["done", "gone", "late"]

#: What ends a process and its children; how they take it is not the same.
_ENDINGS = (signal.SIGINT, signal.SIGTERM)

#: Set when all that goes on is to end.
Cut = threading.Event


class Ending(Protocol):
    """Tells whether a child is to end."""

    def is_set(self) -> bool:
        """Whether it is."""


#: Held while a child begins, or ends: what this process has open for its children is known then.
_beginning = threading.Lock()
_ours: set[int] = set()


class _Messages:
    """Messages of a child to its parent, from any of its threads."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def send(self, message: bytes, mark: int = 0) -> None:
        """Send a message; an empty one says that it was the last."""
        with self._lock:
            self._pipe.write((len(message) | mark).to_bytes(_LENGTH, "big") + message)
            self._pipe.flush()


#: Of a child.
_to_parent: _Messages | None = None


def tell_parent(message: bytes) -> None:
    """Send the parent a message beside the answers."""
    if _to_parent is not None:
        _to_parent.send(message, _BESIDE)


@dataclass(frozen=True, slots=True)
class Died:
    """A child ended before its work did."""

    status: int
    """As the system reports it."""

    @property
    def signal(self) -> int | None:
        """The signal that ended it, if one did."""
        code = os.waitstatus_to_exitcode(self.status)
        return -code if code < 0 else None

    def __str__(self) -> str:
        code = os.waitstatus_to_exitcode(self.status)
        if code >= 0:
            return f"exit code {code}"
        with suppress(ValueError):
            return f"{signal.Signals(-code).name}"
        return f"signal {-code}"


@dataclass(frozen=True, slots=True)
class Late:
    """A child took longer for an answer than it may, and was killed."""


def can_fork() -> bool:
    """Whether this system lets a process have a copy of itself."""
    return hasattr(os, "fork")


def answers(
    work: Callable[[], Iterable[bytes]],
    cut: Ending | None = None,
    limit: float = math.inf,
    hear: Callable[[bytes], object] = len,
) -> Iterator[bytes | Died | Late]:
    """Run something in a child, and yield what it yields; last how it ended, if not by itself.

    The child is a copy of this process, and ends with it. Changes in its memory stay there. It
    ignores an interrupt from the keyboard, which goes to all processes.

    Parameters
    ----------
    work : callable
        Yields bytes.
    cut : Ending, optional
        When it is set, the child is killed, and nothing more is yielded.
    limit : float
        Seconds that it may take for an answer.
    hear : callable, optional
        Gets what the child says beside (:func:`tell_parent`).
    """
    child, source, lifeline = _begin(work)
    ended: list[int] = []
    try:
        how = yield from _frames(source, lambda: _has_ended(child, ended), cut, limit, hear)
        is_cut = cut is not None and cut.is_set() and not ended
        if how == "late":
            yield Late()
        elif how == "gone" and not is_cut:
            yield Died(_reap(child, ended))
    finally:
        with _beginning:
            for end in (source, lifeline):
                _ours.discard(end)
                os.close(end)
        with suppress(ProcessLookupError):
            if not ended:
                os.kill(child, signal.SIGKILL)
        _reap(child, ended)


def _begin(work: Callable[[], Iterable[bytes]]) -> tuple[int, int, int]:
    """Return the pid of a child that works, where it answers, and what it lives as long as."""
    _flush()
    with _beginning:
        theirs, ours = os.pipe(), os.pipe()
        # A signal that ends both must not reach a copy of this process that is not yet a child.
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
        try:
            child = _fork()
            if child == 0:
                os.close(ours[1])
                os.close(theirs[0])
                _live(work, theirs[1], ours[0], heard)
        except OSError:
            for end in (*theirs, *ours):
                os.close(end)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)
        os.close(ours[0])
        os.close(theirs[1])
        _ours.update((theirs[0], ours[1]))
    return child, theirs[0], ours[1]


def _part_from_others() -> None:
    """Close what any child of this process has of others: each would live as long as the other."""
    global _beginning, _to_parent
    _beginning, _to_parent = threading.Lock(), None
    for end in _ours:
        os.close(end)
    _ours.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_part_from_others)


def _fork() -> int:
    with warnings.catch_warnings():
        # A process with threads is copied without them; this one's own are of no use to the child.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _live(
    work: Callable[[], Iterable[bytes]], out: int, parent: int, heard: Collection[int]
) -> None:
    """Be the child: this never returns."""
    global _to_parent  # noqa: PLW0603 - of this process
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)
        threading.Thread(target=_die_with, args=(parent,), daemon=True).start()
        with os.fdopen(out, "wb", closefd=False) as pipe:
            _to_parent = _Messages(pipe)
            for answer in work():
                _to_parent.send(answer)
            _to_parent.send(b"")
        code = 0
    except BaseException:  # noqa: BLE001 - it must not go on as a second parent
        traceback.print_exc()
    finally:
        _flush()
        os._exit(code)


def _die_with(parent: int) -> None:
    """End this process when the other end of a pipe is closed, in any end of its owner."""
    os.read(parent, 1)
    os._exit(1)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _frames(
    source: int,
    has_ended: Callable[[], bool],
    cut: Ending | None,
    limit: float,
    hear: Callable[[bytes], object],
) -> Generator[bytes, None, _End]:
    """Yield the messages of a pipe; return how it ended."""
    pending, until = bytearray(), time.monotonic() + limit
    while True:
        while len(pending) >= _LENGTH:
            length = int.from_bytes(pending[:_LENGTH], "big")
            end = _LENGTH + (length & ~_BESIDE)
            if length == _DONE:
                return "done"
            if len(pending) < end:
                break
            message = bytes(pending[_LENGTH:end])
            del pending[:end]
            if length & _BESIDE:
                hear(message)
                if time.monotonic() >= until:
                    return "late"
                continue
            yield message
            until = time.monotonic() + limit
        chunk = _read(source, has_ended, cut, until)
        if not chunk:
            return "gone" if time.monotonic() < until else "late"
        pending += chunk


def _read(source: int, has_ended: Callable[[], bool], cut: Ending | None, until: float) -> bytes:
    """Return some bytes; none at the writer's end, a cut or the limit."""
    pipe = select.poll()
    pipe.register(source, select.POLLIN)
    while True:
        # Checked before the look at the pipe, which has all that was written before the end.
        over = has_ended()
        look = 0 if over else _LOOK if cut is None else _LOOK_FOR_CUT
        if pipe.poll(min(look, max((until - time.monotonic()) * 1_000, 0))):
            return os.read(source, _CHUNK)
        if over or (cut is not None and cut.is_set()) or time.monotonic() >= until:
            return b""


def _has_ended(child: int, ended: list[int]) -> bool:
    if not ended:
        pid, status = _wait_for(child, os.WNOHANG)
        if pid == child:
            ended.append(status)
    return bool(ended)


def _reap(child: int, ended: list[int]) -> int:
    if not ended:
        ended.append(_wait_for(child, 0)[1])
    return ended[0]


def _wait_for(child: int, how: int) -> tuple[int, int]:
    """Wait for a child; a child reaped elsewhere counts as ended."""
    try:
        return os.waitpid(child, how)
    except ChildProcessError:
        return child, 0
