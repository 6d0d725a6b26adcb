from __future__ import annotations

import gc
import threading
import weakref
from queue import Empty
from typing import Any

import pytest

from spark_queue.memory.waiting.tickets import ThreadTicket, Ticket, TicketLine
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.waiting.tickets.stage import FakeTicket


@pytest.fixture
def timer() -> ManualTimer:
    """Make a clock that stands still."""
    return ManualTimer()


@pytest.fixture
def back() -> list[Any]:
    """Hold what goes back."""
    return []


@pytest.fixture
def line(timer: ManualTimer, back: list[Any]) -> TicketLine[Any]:
    """Make an empty line."""
    return TicketLine(threading.RLock(), timer, lambda ticket, _: Empty(ticket.wants), back.append)


def joined(line: TicketLine[Any], wants: Any = None) -> FakeTicket:
    """Join the line."""
    ticket = FakeTicket(line, wants)
    line.join(ticket)
    return ticket


def test_values_go_to_the_first_in_line(line: TicketLine[Any]) -> None:
    """Each value settles the ticket that came first, ``None`` is a value, and then nobody waits."""
    first, second = joined(line), joined(line)
    assert line.give(None)
    assert (first.settled, first.value, second.settled) == (True, None, False)
    assert line.give("value")
    assert second.value == "value"
    assert not line.give("nobody's")


def test_who_is_gone_is_passed_over(line: TicketLine[Any]) -> None:
    """A value goes past a ticket that nobody can hear of, and does not stay with it."""
    gone, second = joined(line), joined(line)
    gone.is_gone = True
    assert line.give("value")
    assert (gone.settled, second.value) == (False, "value")


def test_a_ticket_lapses_once(line: TicketLine[Any], timer: ManualTimer) -> None:
    """At the deadline a ticket fails with what the line says, unless it was settled before."""
    late, early = joined(line, "late"), joined(line)
    for ticket in (late, early):
        ticket.expect(5)
    line.tickets.move_to_end(early, last=False)
    line.give("value")
    timer.advance(5)
    assert (early.value, early.error, early.rung) == ("value", None, 1)
    assert isinstance(late.error, Empty)
    assert late.error.args == ("late",)
    assert not line.tickets


def test_an_error_in_the_scope_gives_up_or_gives_back(
    line: TicketLine[Any], timer: ManualTimer, back: list[Any]
) -> None:
    """Leaving by an error takes the ticket out of the line, or its value back, unless spent."""
    waiting, given, spent = joined(line), joined(line), joined(line)
    waiting.expect(5)
    for ticket in (given, spent):
        line.tickets.move_to_end(ticket, last=False)
        line.give("value")
    spent.spend()
    for ticket in (waiting, given, spent):
        ticket.__exit__(KeyboardInterrupt, None, None)
    assert (back, len(line.tickets), len(timer)) == (["value"], 0, 0)


def test_a_failed_wait_leaves_no_circle(line: TicketLine[Any]) -> None:
    """The error of a wait does not hold itself, so that it is gone when its catcher is done."""
    gc.disable()
    try:
        ticket = ThreadTicket(line)
        line.join(ticket)
        line.fail_all(Empty)
        try:
            ticket.wait()
        except Empty as error:
            seen = weakref.ref(error)
        assert seen() is None
    finally:
        gc.enable()


def test_a_ticket_without_a_bell_cannot_be_rung(line: TicketLine[Any]) -> None:
    """Whatever waits says itself how it is woken."""
    with pytest.raises(NotImplementedError):
        Ticket(line).give(1)
