"""What has to hold after each order: the laws of a queue, and that its followers know the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chaos_laws
from chaos_evidence import Evidence, Found
from orders_disk import MemoryTable
from spark_queue.state.replica import Replica

Row = dict[str, Any]

_OVER = frozenset({"acked", "dead", "expired", "cancelled"})

#: What is no fault before all items are worked off.
_OPEN = ("never over", "heads wrong")

#: What is no fault where leases may be over: an item is taken over, and who had it is told so.
_LAPSED = ("held twice", "held twice at a time", "settled by others", "lost by the living")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What a history makes lawful."""

    lapses: bool
    """Whether leases are over."""
    shares: bool
    """Whether processes claim under the same id, and so hold the same."""
    returns: bool
    """Whether a key is free when its item is over."""
    stays: bool = False
    """Whether the queue is not worked off."""

    def kinds(self) -> set[str]:
        """Return the kinds of what is no fault."""
        allowed = {
            *(_LAPSED if self.lapses else ()),
            *(_OPEN if self.stays else ()),
            "held twice at a time" if self.shares else "",
            "there twice" if self.returns else "",
        }
        return allowed - {""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """All rows of both tables."""

    items: list[Row]
    moves: list[Row]

    @classmethod
    def of(cls, queue: Path) -> Rows:
        """Read the tables of a queue."""
        return cls(items=_rows(queue / "queue"), moves=_rows(queue / "status"))

    def key(self) -> str:
        """Return what is the same for tables that say the same."""
        said = [_without_token(row) for row in (*self.items, *self.moves)]
        return str(sorted(str(row) for row in said))


def faults(
    rows: Rows,
    lines: Sequence[Row],
    deaths: dict[int, int],
    links: Sequence[tuple[str, int]],
    allowed: Allowed,
) -> Iterator[tuple[str, str]]:
    """Return what is wrong with a run, by kind.

    Parameters
    ----------
    rows : Rows
        All rows of the tables.
    lines : sequence of dict
        What all processes were told.
    deaths : dict
        When their lives were over.
    links : sequence of tuple
        The commits of the run in their order.
    allowed : Allowed
        What is no fault here.
    """
    evidence = Evidence(
        items=rows.items,
        moves=rows.moves,
        lines=sorted(lines, key=lambda line: int(line["at"])),
        deaths=deaths,
    )
    found = Found()
    chaos_laws.check(evidence, found)
    lawful = allowed.kinds()
    for kind, texts in found.faults.items():
        if texts and kind not in lawful:
            yield kind, texts[0]
    if allowed.lapses:
        yield from _early(evidence)
    if allowed.returns:
        yield from _live_twice(evidence, links)


def _early(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Find items that were taken over before the lease of who had them was over."""
    until: dict[int, Any] = {}
    for rows in evidence.steps().values():
        for row in rows:
            seq, held = row["_seq"], until.pop(row["_seq"], None)
            if row["_state"] != "claimed":
                continue
            if held is not None and held[0] != row["_lease"] and held[1] > row["_at"]:
                yield "taken too early", f"item {seq} by {row['_lease']}, held by {held}"
            until[seq] = (row["_lease"], row["_lease_expires_at"])


def _live_twice(evidence: Evidence, links: Sequence[tuple[str, int]]) -> Iterator[tuple[str, str]]:
    """Find keys that two items had at the same time, in the order of the commits."""
    entered, moved, live = evidence.entered(), evidence.steps(), dict[str, int]()
    before = [("queue", step) for step in range(1, _first(links, "queue"))]
    before += [("status", step) for step in range(1, _first(links, "status"))]
    for log, step in (*before, *links):
        for row in moved.get(step, []) if log == "status" else []:
            if row["_state"] in _OVER:
                live = {key: seq for key, seq in live.items() if seq != row["_seq"]}
        for row in (row for row in entered if log == "queue" and row["_step"] == step):
            if row["k"] in live:
                yield "live twice", f"key {row['k']}: {live[row['k']]} and {row['_seq']}"
            live[row["k"]] = row["_seq"]


def _first(links: Sequence[tuple[str, int]], log: str) -> int:
    return min((version for name, version in links if name == log), default=1_000)


def differences(mine: Replica | None, anew: Replica | None) -> Iterator[tuple[str, str]]:
    """Return in what a process that has followed a queue differs from one that reads it anew."""
    if mine is None or anew is None:
        yield "not known", f"{mine} and {anew}"
        return
    for name in ("items", "keys", "ends", "served"):
        one, other = getattr(mine, name), getattr(anew, name)
        if one != other:
            yield f"{name} differ", f"{one} and, read anew, {other}"
    if _in_flight(mine) != _in_flight(anew):
        yield "claims differ", f"{_in_flight(mine)} and, read anew, {_in_flight(anew)}"


def _in_flight(replica: Replica) -> dict[int, set[int]]:
    """Return what is left of claims of which something is in flight; others may be forgotten."""
    held = {item["_lease"] for item in replica.items.values() if item["_state"] == "claimed"}
    return {lease: grant.left for lease, grant in replica.grants.items() if lease in held}


def _without_token(row: Row) -> Row:
    if row["_kind"] != "head":
        return row
    return {**row, "_body": {**json.loads(row["_body"]), "token": ""}}


def _rows(table: Path) -> list[Row]:
    known = MemoryTable(table)
    rows: list[Row] = known.to_pyarrow_table(known.columns()).to_pylist()
    return rows
