"""The examples of the pattern: a bank account, alone and with a validation by another service."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.singular import PendingCalls, SingularUpdateQueue


@dataclass(frozen=True)
class Credit:
    """A request to add an amount, once another service has validated it."""

    amount: int


@dataclass(frozen=True)
class Validated:
    """What the other service replied."""

    correlation_id: int
    valid: bool


@dataclass
class Account:
    """The state, touched by the queue's handler only."""

    amount: int = 0
    calls: PendingCalls[int] = field(default_factory=PendingCalls)

    def handle(self, request: Credit | Validated) -> list[dict[str, Any]]:
        """Answer with outgoing messages."""
        if isinstance(request, Credit):
            return [{"to": "validation", "correlation_id": self.calls.begin(request.amount)}]
        amount = self.calls.end(request.correlation_id)
        if not request.valid:
            return []
        self.amount += amount
        return [{"to": "client", "amount": self.amount}]


@pytest.mark.parametrize(("valid", "amount", "messages"), [(True, 100, 1), (False, 0, 0)])
def test_a_reply_from_outside_comes_back_through_the_queue(
    valid: bool,  # noqa: FBT001
    amount: int,
    messages: int,
) -> None:
    """SU-03, SU-04: the balance changes when the reply is handled; a refusal is dropped."""
    account = Account()
    with SingularUpdateQueue(account.handle) as queue:
        outgoing = queue.submit(Credit(100)).result(timeout=10)
        assert len(outgoing) == 1
        assert account.amount == 0
        reply = Validated(outgoing[0]["correlation_id"], valid=valid)
        assert len(queue.submit(reply).result(timeout=10)) == messages
    assert account.amount == amount
    assert len(account.calls) == 0


def test_a_reply_that_comes_twice_is_refused() -> None:
    """SU-03: an unknown correlation id is an error, and changes nothing."""
    account = Account()
    with SingularUpdateQueue(account.handle) as queue:
        (sent,) = queue.submit(Credit(100)).result(timeout=10)
        reply = Validated(sent["correlation_id"], valid=True)
        queue.submit(reply).result(timeout=10)
        with pytest.raises(InvalidArgumentError, match="no call"):
            queue.submit(reply).result(timeout=10)
    assert account.amount == 100


def test_calls_under_way_do_not_mix() -> None:
    """SU-03: two calls that are under way at once end each with its own state."""
    account = Account()
    with SingularUpdateQueue(account.handle) as queue:
        sent = [queue.submit(Credit(n)).result(timeout=10)[0]["correlation_id"] for n in (1, 20)]
        queue.submit(Validated(sent[1], valid=True)).result(timeout=10)
        assert account.amount == 20
        queue.submit(Validated(sent[0], valid=False)).result(timeout=10)
    assert account.amount == 20


def test_a_debit_beyond_the_balance_fails() -> None:
    """SU-14: a debit beyond the balance is refused, the balance stays, the next credit works."""
    balance = [50]

    def move(amount: int) -> int:
        if balance[0] + amount < 0:
            raise ValueError("Not enough balance")
        balance[0] += amount
        return balance[0]

    with SingularUpdateQueue(move) as queue:
        with pytest.raises(ValueError, match="Not enough balance"):
            queue.submit(-80).result(timeout=10)
        assert balance == [50]
        assert queue.submit(25).result(timeout=10) == 75
