"""Items that replace each other: of a key one is busy, and of the others the newest counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_queue.rules.fairness import Account
    from spark_queue.rules.rule_model import NewItem, Record


# rule: busy item of a key
def is_busy(state: str, *tries: int) -> bool:
    """Tell whether an item has begun: it is claimed, or failed, or lost a lease, and goes on."""
    return state == "claimed" or any(tries)


@dataclass(frozen=True, slots=True)
class Replacing:
    """How rows replace others of their key.

    Attributes
    ----------
    debounce, at_most : float, optional
        How many seconds a row waits for the next one, and at most after the first of them.
    """

    debounce: float | None = None
    at_most: float | None = None

    # rule: replaced item of a key
    def chain(self, record: Record, older: Record | None, now: float) -> None:
        """Chain an item to the one that it replaces, or follows: then it is the first to wait."""
        began = now
        if older is not None:
            record.chain = older.seq if older.chain is None else older.chain
            if not older.is_busy:
                began = older.enqueued_at if older.chain_at is None else older.chain_at
            record.chain_at = began
        record.available_at = self._available_at(record.available_at, now, began)

    # rule: debounce of a key
    def _available_at(self, own: float | None, now: float, began: float) -> float | None:
        """Return when a row is available that is put now; one that says when keeps to it."""
        if own is not None or self.debounce is None or self.at_most is None:
            return own
        # Of numbers of microseconds each sum is one, too.
        return round(min(now + self.debounce, began + self.at_most), 6)


# rule: replaced item of a key
def place_of(older: Record, account: Account, new: NewItem) -> float | None:
    """Return the tag that an item takes over from the one that it replaces, if it does."""
    is_grouped = older.new.group_key is not None or new.group_key is not None
    if older.is_busy or older.account is not account or is_grouped:
        return None
    return older.raw_tag
