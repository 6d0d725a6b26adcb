"""Threads that wait in a queue, started one after another so that their order is known."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from spark_queue.memory.waiting.tickets import TicketLine
from spark_queue.memory.waiting.waiters import WaiterLine
from tests.unit.threads import until


class Crew:
    """Runs calls that wait, each in a thread of its own, and keeps what they return or raise."""

    def __init__(self, line: TicketLine[Any] | WaiterLine[Any]) -> None:
        self._line: Any = getattr(line, "tickets", line)
        self._threads: list[threading.Thread] = []
        self.ended: dict[int, Any] = {}

    def waits(self, call: Callable[[], object]) -> int:
        """Start a call, wait until it stands in the line, and return its number."""
        number, length = len(self._threads), len(self._line)

        def body() -> None:
            try:
                self.ended[number] = call()
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                self.ended[number] = error

        thread = threading.Thread(target=body, daemon=True)
        self._threads.append(thread)
        thread.start()
        until(lambda: len(self._line) == length + 1)
        return number

    def outcomes(self, *numbers: int) -> list[Any]:
        """Wait for some calls, or all, and return what each returned or raised."""
        chosen = numbers or tuple(range(len(self._threads)))
        for number in chosen:
            self._threads[number].join(timeout=10)
        return [self.ended[number] for number in chosen]

    def kinds(self) -> list[type]:
        """Wait for all calls, and return the types of what they returned or raised."""
        return [type(outcome) for outcome in self.outcomes()]
