"""Charges of one claim to keys with rates."""

from __future__ import annotations

from collections.abc import Sequence

from spark_queue.rules.limiting import Limited
from spark_queue.rules.pacing import NO_DEBT, Debt, Paces, UnitsAsked


class Tally:
    """What one claim charges to keys with rates.

    Attributes
    ----------
    paces : Paces
        What they owed before.
    now : int
        Its instant.
    debts : dict
        What keys owe that it charged.
    next_at : int or None
        The first instant at which what it kept back may start.
    is_over : bool
        Whether the rate of the whole queue ended it.
    closed : dict
        The keys of which nothing more starts, each with the instant at which the item that closed
        it has its units.
    """

    __slots__ = ("closed", "debts", "is_over", "next_at", "now", "paces")

    def __init__(self, paces: Paces, now: int) -> None:
        self.paces, self.now = paces, now
        self.closed: dict[Limited, int] = {}
        self.debts: dict[Limited, Debt] = {}
        self.next_at: int | None = None
        self.is_over = False

    # rule: pass of a claim
    def admits(self, asked: Sequence[UnitsAsked]) -> bool:
        """Tell whether the next item has its units.

        A key that lacks those of one of its items is closed for the rest of the claim, so that
        nothing of it overtakes; without those of the whole queue the claim ends.
        """
        if self.closed and any(one.key in self.closed for one in asked):
            return False
        lacking = [one for one in asked if self._starts_at(one) > self.now]
        if not lacking:
            return True
        of_keys = [one for one in lacking if not self.paces.is_whole(one.key)]
        for one in of_keys or lacking:
            debt = self.debts.get(one.key) or self.paces.debts.get(one.key, NO_DEBT)
            self.closed[one.key] = one.due_at(debt, self.now)
        self.is_over = not of_keys
        at = max(map(self._starts_at, lacking))
        self.next_at = at if self.next_at is None else min(self.next_at, at)
        return False

    def charge(self, asked: Sequence[UnitsAsked]) -> None:
        """Charge an item that starts."""
        for one in asked:
            self.debts[one.key] = one.charge(self._debt(one), self.now)

    def closed_keys(self) -> list[Limited]:
        """Return the closed keys."""
        return [*self.closed]

    def _starts_at(self, asked: UnitsAsked) -> int:
        return asked.starts_at(self._debt(asked))

    def _debt(self, asked: UnitsAsked) -> Debt:
        debt = self.debts.get(asked.key) or self.paces.debts.get(asked.key, NO_DEBT)
        return asked.set_right(debt, self.now)
