"""Calls to the outside that a handler has under way, by the id under which the reply comes back."""

from __future__ import annotations

from typing import Generic, TypeVar

from spark_queue.checks import require_seq
from spark_queue.errors import InvalidArgumentError
from spark_queue.wording import shorten

S = TypeVar("S")


class PendingCalls(Generic[S]):
    """What a handler must remember until the reply to an outgoing call comes.

    A handler must not wait for the outside: it would stop its queue. It stores what it needs under
    a correlation id, sends the id out, and returns; the receiver of the reply submits it to the
    same queue, whose handler ends the call. All of it happens in the handler, so there is no lock.

    Examples
    --------
    >>> calls = PendingCalls()
    >>> sent = calls.begin({"credit": 100})
    >>> calls.end(sent)
    {'credit': 100}
    >>> len(calls)
    0
    """

    def __init__(self) -> None:
        self._last = 0
        self._pending: dict[int, S] = {}

    def __len__(self) -> int:
        """Return how many calls are under way."""
        return len(self._pending)

    def begin(self, state: S) -> int:
        """Remember what a call is about, and return its correlation id."""
        self._last += 1
        self._pending[self._last] = state
        return self._last

    def end(self, correlation_id: int) -> S:
        """Forget a call, whether it went well or not, and return what it was about.

        Raises
        ------
        InvalidArgumentError
            When no such call is under way: it never was, or its reply came before.
        """
        require_seq("correlation_id", correlation_id)
        if correlation_id not in self._pending:
            raise InvalidArgumentError(
                f"no call with the id {shorten(correlation_id)} is under way"
            )
        return self._pending.pop(correlation_id)
