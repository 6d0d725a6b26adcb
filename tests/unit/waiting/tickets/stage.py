"""Two threads that meet at a lock in every order: for queues whose lines live under their lock."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from spark_queue.memory.waiting.tickets import _NOTHING, ThreadTicket, Ticket, TicketLine
from tests.unit.inprocess.blocking.test_interleavings import Schedule, schedules

__all__ = ["FakeTicket", "Meeting", "line_of", "outcome_of", "schedules"]

#: How often a thread may be given its turn while it sleeps before the test gives it up.
_PATIENCE = 60


class Overslept(Exception):  # noqa: N818 - it is no error of the code under test
    """Raised in a thread that nobody woke though everybody else is done."""


class StepLock:
    """A reentrant lock whose holder stops before it takes it and after it lets go."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._lock = threading.RLock()
        self._depth = 0

    def acquire(self) -> None:
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            self._schedule.pause()
        self._lock.acquire()
        self._depth += 1

    def release(self) -> None:
        self._depth -= 1
        outermost = not self._depth
        self._lock.release()
        if outermost:
            self._schedule.pause()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Meeting:
    """Runs two threads against queues made in it, switching between them as the turns say."""

    def __init__(self, turns: tuple[int, ...], patch: pytest.MonkeyPatch, module: str) -> None:
        self._schedule = Schedule(itertools.chain(turns, itertools.cycle((0, 1))))

        def wait(ticket: ThreadTicket[Any]) -> Any:
            return self._wait(ticket)

        patch.setattr(f"{module}.RLock", lambda: StepLock(self._schedule))
        patch.setattr(ThreadTicket, "wait", wait)
        self.errors: list[BaseException] = []

    def _wait(self, ticket: ThreadTicket[Any]) -> Any:
        """Sleep by turns, so that the schedule goes on."""
        for _ in range(_PATIENCE):
            if ticket.value is not _NOTHING or ticket.error is not None:
                if ticket.error is not None:
                    ticket._raise()
                return ticket.value
            self._schedule.pause()
        raise Overslept

    def pause(self) -> None:
        """Give the other thread its turn, or go on, as the schedule says."""
        self._schedule.pause()

    def play(self, *bodies: Callable[[], object]) -> None:
        """Run both to their end; what they raise is in ``errors``."""
        self._schedule.play(*(lambda body=body: self._run(body) for body in bodies))

    def _run(self, body: Callable[[], object]) -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.errors.append(error)


class FakeTicket(Ticket[Any]):
    """A ticket that only writes down whether it was rung."""

    __slots__ = ("is_gone", "rung")

    def __init__(self, line: TicketLine[Any], wants: Any = None) -> None:
        super().__init__(line, wants)
        self.rung = 0
        self.is_gone = False

    @property
    def settled(self) -> bool:
        """Whether it has a value or an error."""
        return self.value is not _NOTHING or self.error is not None

    def _ring(self) -> bool:
        self.rung += 1
        return not self.is_gone


def line_of(queue: Any, name: str) -> TicketLine[Any]:
    """Return one of the lines of a queue."""
    line: TicketLine[Any] = getattr(queue._state, name)
    return line


def outcome_of(call: Callable[[], object]) -> Any:
    """Make a call, and return what it returns or raises."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return error
