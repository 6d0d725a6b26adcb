"""Items that replace each other: of a key one is busy, and of the others the newest counts."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from spark_queue.rules.fairness import Account
    from spark_queue.rules.rule_model import NewItem, Record


class Chained(Protocol):
    """A live item of a chain: of items that replace each other."""

    @property
    def seq(self) -> int:
        """Its sequence number."""

    @property
    def is_busy(self) -> bool:
        """Whether it has begun."""


_Chained = TypeVar("_Chained", bound=Chained)


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


# rule: replaced item of a key
def waits_of(chain: Iterable[_Chained]) -> tuple[list[_Chained], _Chained | None, int | None]:
    """Return which items of a chain are replaced, which waits, and for which that is busy.

    Parameters
    ----------
    chain : iterable
        Its live items, in the order of their seqs.
    """
    busy = None
    others = []
    for item in chain:
        if not item.is_busy:
            others.append(item)
        elif busy is None:
            busy = item.seq
    return others[:-1], others[-1] if others else None, busy


class ReplacingChains:
    """The live items that replace each other.

    Hooks: ``join`` when an item is known, ``look_at`` when it has moved, ``leave`` at its end.

    Attributes
    ----------
    replaced : dict
        The items that the next claim ends, by seq.
    """

    __slots__ = ("_chains", "_records", "replaced")

    def __init__(self, records: Mapping[int, Record]) -> None:
        self._records = records
        self._chains: dict[int, list[int]] = {}
        self.replaced: dict[int, Record] = {}

    def join(self, record: Record) -> None:
        """Let an item be one of its chain."""
        at = record.seq if record.chain is None else record.chain
        if record.chain is None and at not in self._chains:
            return
        chain = self._chains.setdefault(at, [])
        first = self._records.get(at)
        if not chain and first is not None and first.place != "done":
            chain.append(first.seq)
        if record.seq not in chain:
            insort(chain, record.seq)

    def leave(self, record: Record) -> None:
        """Forget an item that is over."""
        at = record.seq if record.chain is None else record.chain
        chain = self._chains.get(at, [])
        if record.seq in chain:
            chain.remove(record.seq)
            self.replaced.pop(record.seq, None)
        if not chain:
            self._chains.pop(at, None)

    def look_at(self, record: Record) -> list[Record]:
        """Return the items of a chain that come to wait for another one, or no longer do."""
        at = record.seq if record.chain is None else record.chain
        if at not in self._chains:
            return []
        chain = [self._records[seq] for seq in self._chains[at]]
        chain = [one for one in chain if one.place != "done"]
        older, newest, busy = waits_of(chain)
        moved = []
        for one in chain:
            one.replaced_by = chain[-1].seq if one in older else None
            if one.replaced_by is None:
                self.replaced.pop(one.seq, None)
            else:
                self.replaced[one.seq] = one
            follows = busy if one is newest else None
            if one.follows != follows:
                one.follows = follows
                moved.append(one)
        return moved
