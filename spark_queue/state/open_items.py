"""Newest rows of open items: in flight, of a group, of a line, in seq order."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import islice
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from spark_queue.log import kernels as pc
from spark_queue.log.schema import CLAIMED, ENTERED_WITH, READY, RECENT, SCHEDULE
from spark_queue.rules.pacing import Debt
from spark_queue.rules.places import is_busy

#: A place in the order of service: negated priority, turn, seq.
Place = tuple[float, float, float]

#: A row of a log, by column.
Row = dict[str, Any]

#: A fair key at a priority.
LineKey = tuple[int, str | None]

#: Of dedup keys the newest item, when it was enqueued, and whether it is open.
Holders: TypeAlias = dict[str, tuple[int, datetime, bool]]

#: Columns of items that tell which ones wait with which; and ``turn``.
NAMED = ("_seq", "_priority", "_fair_key", "_group_key")

#: The columns of an item's newest row: what a fold reads of it, but for its kind and step.
STATE = tuple(name for name in RECENT if name not in ("_kind", "_step"))

#: Columns read of a row of the item log.
ENTERED = (
    *("_kind", "_gen", "_step", "_seq", *SCHEDULE, "_dedup_key", "_errors"),
    *("_chain_at", "_replaces"),
)

#: What later rows of an item may leave out, or have not.
KEPT = (*ENTERED_WITH, "_chain_at")

#: Columns read of a row of the status log.
FOLLOWED = ("_kind", "_step", "_at", "_body", *STATE, "_by", "_key", "_tat", "_refunds")

#: Columns read of an item that waits, and was never touched.
WAITING = ("_seq", "_gen", *SCHEDULE, "_errors", "_chain_at")

#: Whether an item waited, untouched, when a window was made, or has entered since.
WAITED = "_waited"

#: The time of enqueue of an item for which it does not matter.
_LONG_AGO = datetime(1970, 1, 1, tzinfo=timezone.utc)

_BY_NAME = [("name", "ascending"), ("_seq", "ascending")]


class Peer(NamedTuple):
    """An item that waited when it was learnt of."""

    seq: int
    place: Place


#: Tells that an item waits in the tables no more, from then on for ever.
IsOver = Callable[[Peer], bool]


class Peers:
    """Items by a name that some have in common.

    It takes 21 bytes an item, and what the names take, each once: so it can be asked of any item
    who waits before it, at the price of a look, however many wait.

    Parameters
    ----------
    names : pyarrow.ChunkedArray
        The name of each item; null where it shares none.
    items : pyarrow.Table
        ``_seq``, ``_priority`` and ``turn`` of each.
    """

    def __init__(self, names: pa.ChunkedArray, items: pa.Table) -> None:
        self._names, codes = _rank(names)
        ordered = items.select(["_seq", "_priority", "turn"]).append_column("name", codes)
        ordered = ordered.filter(pc.is_valid(codes)).sort_by(_BY_NAME)
        self._seqs: Sequence[int] = view(ordered["_seq"], pa.int64(), "q")
        self._priorities: Sequence[int] = view(ordered["_priority"], pa.int32(), "i")
        self._turns: Sequence[float] = view(ordered["turn"], pa.float64(), "d")
        self._ends = _ends(ordered["name"])
        self._is_over = bytearray(len(self._seqs))
        self._later: dict[str, list[Peer]] = {}
        self.added = 0
        """How many were added since."""

    def add(self, name: str | None, peer: Peer) -> None:
        """Add a new item; items of a step come in any order."""
        if name is not None:
            insort(self._later.setdefault(name, []), peer)
            self.added += 1

    def waiting(self, name: str, before: float, is_over: IsOver) -> Iterator[Peer]:
        """Yield a name's waiting items that entered before a seq, the last first."""
        later = self._later.get(name, [])
        for at in reversed(range(bisect_left(later, (before,)))):
            if is_over(later[at]):
                del later[at]
            else:
                yield later[at]
        first, last = self._range(name)
        at = bisect_left(self._seqs, before, first, last)
        while (at := self._is_over.rfind(0, first, at)) >= 0:
            peer = self._peer(at)
            if is_over(peer):
                self._is_over[at] = 1
            else:
                yield peer

    def first_waiting(self, name: str, before: float, is_over: IsOver) -> Iterator[Peer]:
        """As :meth:`waiting`, the first first."""
        first, last = self._range(name)
        end = bisect_left(self._seqs, before, first, last)
        while (at := self._is_over.find(0, first, end)) >= 0:
            peer = self._peer(at)
            if is_over(peer):
                self._is_over[at] = 1
            else:
                yield peer
            first = at + 1
        later = self._later.get(name, [])
        yield from (one for one in later[: bisect_left(later, (before,))] if not is_over(one))

    def _range(self, name: str) -> tuple[int, int]:
        at = bisect_left(_Texts(self._names), name)
        if at == len(self._names) or self._names[at].as_py() != name:
            return 0, 0
        return (self._ends[at - 1] if at else 0), self._ends[at]

    def _peer(self, at: int) -> Peer:
        seq = self._seqs[at]
        return Peer(seq, (-self._priorities[at], self._turns[at], seq))


class _Texts:
    """Texts of a column in order, to be looked through."""

    def __init__(self, column: pa.StringArray) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, at: int) -> str:
        text: str = self._column[at].as_py()
        return text


class Ranks:
    """The items that wait in the tables, by group and by line.

    Parameters
    ----------
    items : pyarrow.Table
        The columns :data:`NAMED`, and ``turn``.
    """

    def __init__(self, items: pa.Table) -> None:
        self._groups = Peers(items["_group_key"], items)
        self._lines = Peers(_line_names(items), items)

    @property
    def added(self) -> int:
        """How many items were added."""
        return self._lines.added

    def add(self, row: Row, place: Place) -> None:
        """Add an item that has entered since."""
        peer = Peer(row["_seq"], place)
        self._groups.add(row["_group_key"], peer)
        self._lines.add(_line_name(row), peer)

    def before_in_group(self, rows: Iterable[Row], is_over: IsOver) -> set[int]:
        """Return the waiting items before given ones in their groups."""
        last = _last_seqs((row["_group_key"], row["_seq"]) for row in rows)
        return _before(self._groups, last, is_over)

    def before_in_line(self, rows: Iterable[Row], is_over: IsOver) -> set[int]:
        """Return the waiting items before given ones in their lines, by seq."""
        last = _last_seqs((_line_name(row), row["_seq"]) for row in rows)
        return _before(self._lines, last, is_over)

    def first_in_line(self, row: Row, is_over: IsOver, count: int) -> list[int]:
        """Return the first waiting items before a given one in its line, by seq."""
        waiting = self._lines.first_waiting(_line_name(row), row["_seq"], is_over)
        return [peer.seq for peer in islice(waiting, count)]

    def members(self, group_key: str, is_over: IsOver) -> Iterator[Peer]:
        """Yield the members of a group that wait, the last of them first."""
        return self._groups.waiting(group_key, math.inf, is_over)


def _before(peers: Peers, last: Mapping[str, int], is_over: IsOver) -> set[int]:
    return {peer.seq for name, seq in last.items() for peer in peers.waiting(name, seq, is_over)}


def _last_seqs(named: Iterable[tuple[str | None, int]]) -> dict[str, int]:
    last: dict[str, int] = {}
    for name, seq in named:
        if name is not None:
            last[name] = max(last.get(name, seq), seq)
    return last


def _line_name(row: Row) -> str:
    parts = (str(row["_priority"]), row["_fair_key"])
    return "=".join(part for part in parts if part is not None)


def _line_names(items: pa.Table) -> pa.ChunkedArray:
    """Return the same of each row."""
    priorities = items["_priority"].cast(pa.string())
    return pc.binary_join_element_wise(priorities, items["_fair_key"], "=", null_handling="skip")


def _rank(names: pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
    """Return the distinct names in order, and the index of each row's name."""
    coded = pa.chunked_array(names, pa.string()).combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    different = coded.dictionary
    order = pc.sort_indices(different)
    ranks = pc.sort_indices(order)
    return different.take(order), ranks.take(coded.indices)


def _ends(ordered: pa.ChunkedArray) -> Sequence[int]:
    """Return where the rows of each name end."""
    runs = pc.run_end_encode(_one(ordered), run_end_type=pa.int64())
    ends: Sequence[int] = view(pa.chunked_array([runs.run_ends]), pa.int64(), "q")
    return ends


def _one(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def view(column: pa.ChunkedArray, kind: pa.DataType, letter: Literal["q", "i", "d"]) -> Any:
    """Return the values of a column without nulls, to be looked at one by one."""
    values = _one(column.cast(kind))
    if not len(values):
        return memoryview(b"").cast(letter)
    _, data = values.buffers()
    return memoryview(data).cast(letter)[values.offset : values.offset + len(values)]


class ChainMember(NamedTuple):
    """An item of a chain of items that replace each other."""

    seq: int
    is_busy: bool

    @classmethod
    def of(cls, row: Row) -> ChainMember:
        """Look at an item's newest row."""
        return cls(row["_seq"], has_begun(row))


@dataclass(slots=True)
class RememberedClaim:
    """The items of a claim, and those its holder has not settled."""

    rows: dict[int, Row]
    """The rows by which the items were leased, by seq."""
    left: set[int]
    output: str | None = None
    """The table where its holder writes results."""
    given_back: set[int] = field(default_factory=set)
    """Items that are ready again as if never leased: they have no verdict."""
    charges: dict[tuple[str, Hashable], Debt] = field(default_factory=dict)
    """What keys owed after it."""

    @property
    def claim_id(self) -> str:
        """The id of the claim."""
        return str(next(iter(self.rows.values()))["_claim_id"])


class OpenItems(dict[int, Row]):
    """The newest row of each item that is ready or claimed, by seq.

    Rows come and go by ``items[seq] = row`` and ``del items[seq]`` alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self._held: set[int] = set()
        self._groups: dict[str, set[int]] = {}
        self._chains: dict[int, set[int]] = {}

    def in_flight(self) -> list[Row]:
        """Return the rows of the items in flight, in the order of their seqs."""
        return [self[seq] for seq in sorted(self._held)]

    def members(self, groups: Collection[str]) -> list[Row]:
        """Return the rows of the members of some groups, in the order of their seqs."""
        seqs = [seq for group in groups for seq in self._groups.get(group, ())]
        return [self[seq] for seq in sorted(seqs)]

    def chains(self) -> list[list[int]]:
        """Return the seqs of the items that replace each other, in order."""
        return [self.of_chain(chain) for chain in self._chains]

    def of_chain(self, chain: int) -> list[int]:
        """Return the seqs of the items that replace each other, the first of which is named."""
        return sorted(self._chains.get(chain, set()) | ({chain} & self.keys()))

    def __setitem__(self, seq: int, row: Row) -> None:
        """Let a row be the newest one of an item."""
        if seq in self and self[seq]["_group_key"] != row["_group_key"]:
            self._leave(seq, self[seq]["_group_key"])
        super().__setitem__(seq, row)
        if row["_state"] == CLAIMED:
            self._held.add(seq)
        else:
            self._held.discard(seq)
        if row["_group_key"] is not None:
            self._groups.setdefault(row["_group_key"], set()).add(seq)
        if row["_chain"] is not None:
            self._chains.setdefault(row["_chain"], set()).add(seq)

    def __delitem__(self, seq: int) -> None:
        """Forget an item that is over."""
        row = self[seq]
        super().__delitem__(seq)
        self._held.discard(seq)
        self._leave(seq, row["_group_key"])
        if (chain := row["_chain"]) is not None:
            self._chains[chain].discard(seq)
            if not self._chains[chain]:
                del self._chains[chain]

    def _leave(self, seq: int, group: str | None) -> None:
        if group is None:
            return
        members = self._groups[group]
        members.discard(seq)
        if not members:
            del self._groups[group]


def is_given_back(row: Row) -> bool:
    """Whether an item is ready again without a failure or a loss."""
    return row["_state"] == READY and row.get("_lease") is None and row.get("_error") is None


def has_begun(row: Row) -> bool:
    """Whether an open item is claimed, or was tried before."""
    return is_busy(row["_state"], row["_attempts"], row["_losses"], row["_deferrals"] or 0)


class RowFollower(Protocol):
    """A listener to the rows that a replica applies."""

    def put(self, row: Row) -> None:
        """Follow an item to where its newest row says that it is."""

    def serve(self, line: tuple[int, str | None], turn: float, *, overdue: bool) -> None:
        """Note a turn that was handed out."""

    def owe(self, by: str, key: str, debt: Debt) -> None:
        """Note what a key of a rate owes."""


#: What was counted of an item that nobody has claimed.
_UNTRIED: Row = {"_losses": 0, "_deferrals": 0}


def as_entered(row: Row) -> Row:
    """Return an item that waits as it entered."""
    named = ("_seq", "_gen", *SCHEDULE, "_chain_at")
    item: Row = dict.fromkeys(STATE) | {name: row.get(name) for name in named}
    return item | {"_state": READY, "_attempts": row.get("_errors") or 0, **_UNTRIED}


def standing_for(peer: Peer, group_key: str) -> Row:
    """Return an item of the tables with the facts that new members of its group need.

    In no line of a key a tag is a turn.
    """
    rank, turn, seq = peer.place
    told = {"_seq": seq, "_priority": int(-rank), "_round": turn, "_group_key": group_key}
    nothing = dict.fromkeys(STATE) | {"_attempts": 0, "_cost": 1.0, **_UNTRIED}
    return nothing | told | {"_state": READY, "_enqueued_at": _LONG_AGO}
