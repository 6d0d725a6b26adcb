"""State of a queue's items, for one reader, as of a step.

Nothing is decided here. Rows of every process are applied as facts, so that a step which was
lost, or that came to nothing, leaves no trace.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from spark_queue.config import DedupScope
from spark_queue.log.heads import Pointer
from spark_queue.log.schema import (
    CLAIMED,
    ITEM,
    KEY,
    RATE,
    RENEWAL,
    SERVED,
    TERMINAL,
)
from spark_queue.rules.dedup_keys import kept_for
from spark_queue.rules.pacing import Debt, debt_of
from spark_queue.state.open_items import (
    KEPT,
    STATE,
    Holders,
    LineKey,
    OpenItems,
    Place,
    RememberedClaim,
    Row,
    RowFollower,
    as_entered,
    has_begun,
    is_given_back,
    standing_for,
)
from spark_queue.state.window import TooManyItemsError, Window

#: How many claims are remembered besides the ones with items in flight.
_CLAIMS = 100


@dataclass(slots=True)
class Replica:
    """The open items of a queue, and the facts that decide its next steps.

    Attributes
    ----------
    queue, status : str
        The tokens of the steps up to which the item log and the status log are known.
    items : OpenItems
        The newest row of each item that is ready or claimed, by seq.
    keys : dict
        The newest item of each dedup key, and when it was enqueued.
    chains : dict
        The first of the items that replace each other, by the dedup key of the newest.
    ends : dict
        The last tag that each line has given out.
    served : dict
        The highest turn that was handed out to each line, and the highest overdue one.
    grants : dict
        The claims, by lease.
    debts : dict
        What keys owe, by what the rate is by, and the key.
    """

    queue: str = ""
    status: str = ""
    items: OpenItems = field(default_factory=OpenItems)
    keys: dict[str, tuple[int, datetime]] = field(default_factory=dict)
    chains: dict[str, int] = field(default_factory=dict)
    ends: dict[LineKey, float] = field(default_factory=dict)
    served: dict[tuple[LineKey, bool], float] = field(default_factory=dict)
    grants: dict[int, RememberedClaim] = field(default_factory=dict)
    debts: dict[tuple[str, Hashable], Debt] = field(default_factory=dict)
    has_forgotten: bool = False
    """Whether there were claims that are not among the grants any more."""
    follower: RowFollower | None = field(default=None, compare=False, repr=False)
    """The scheduler that decides by this state."""
    window: Window | None = field(default=None, compare=False, repr=False)
    """The part that is not in memory; ``None`` where everything is."""

    def horizon(self) -> Place | None:
        """Return the place up to which all items are in memory; ``None`` for all."""
        return None if self.window is None else self.window.horizon

    def is_empty(self) -> bool:
        """Whether no item is ready or claimed."""
        return not self.items and self.horizon() is None

    def come_nearer(self, wanted: int, most: int) -> None:
        """Bring the next items here that wait in the tables.

        Parameters
        ----------
        wanted : int
            How many may be needed.
        most : int
            Open items that are here at most.

        Raises
        ------
        TooManyItemsError
            When there would be more.
        """
        if self.window is None:
            return
        for row in self.window.next_rows(wanted):
            seq = row["_seq"]
            if seq in self.window.gone:
                self.window.gone.discard(seq)
            elif seq not in self.items:
                self._wait(row)
            else:
                self.window.meet(row)
        if len(self.items) > most:
            raise TooManyItemsError

    def bring_before(self, most: int) -> None:
        """Load the items that may be served before items in memory.

        Of those that come for a place behind them only their groups are asked: they are not served
        before the horizon comes to them. No more are here than :meth:`come_nearer` says.
        """
        window = self.window
        if window is None or not window.unled:
            return
        rows = [self.items[seq] for seq in window.unled if seq in self.items]
        in_lines = True
        while rows and window.horizon is not None:
            missing = window.before(rows, self.items, in_lines=in_lines)
            if len(self.items) + len(missing) > most:
                raise TooManyItemsError
            rows, in_lines = self._bring(missing), False
        window.unled.clear()

    def bring_in_doubt(
        self, in_doubt: Mapping[tuple[int, Hashable], float], wanted: int, most: int
    ) -> bool:
        """Load the next items of lines, up to a seq each; tell whether any came.

        ``in_doubt`` is of a proposal, and the others are as for :meth:`come_nearer`.
        """
        if self.window is None:
            return False
        missing = self.window.before_early(in_doubt, self.items, wanted)
        if len(self.items) + len(missing) > most:
            raise TooManyItemsError
        return bool(self._bring(missing))

    def bring_chains(self, most: int) -> None:
        """Load the items of the tables that items in memory replace, or are replaced by."""
        if self.window is None or not self.window.chained:
            return
        missing = self.window.chained - self.items.keys()
        if len(self.items) + len(missing) > most:
            raise TooManyItemsError
        self._bring(missing)
        self.window.chained.clear()

    def members(self, groups: Collection[str], pointers: Mapping[int, Pointer]) -> list[Row]:
        """Return the open members of some groups that new ones are measured against.

        Those that are here, and of those in the tables the last that the order has not passed.

        Parameters
        ----------
        groups : collection of str
            The groups.
        pointers : mapping
            How far the order of service has come, by priority.
        """
        here = self.items.members(groups)
        if self.window is None:
            return here
        last = {key: self.window.last_ahead(key, self.items, pointers) for key in groups}
        return here + [standing_for(one, key) for key, one in last.items() if one is not None]

    def is_led(self, seq: int) -> bool:
        """Whether the members of an item's group that come before it are in memory."""
        return self.window is None or seq not in self.window.unled

    def holders(self, asked: Mapping[str, int | None]) -> Holders:
        """Return the newest item of each of some dedup keys, and whether it is open.

        Parameters
        ----------
        asked : mapping
            The hash of each key, where that is known.
        """
        known = {key: self.keys[key] for key in asked if key in self.keys}
        found = {key: (seq, at, seq in self.items) for key, (seq, at) in known.items()}
        if self.chains:
            found = {key: self._newest(key, *one) for key, one in found.items()}
        if self.window is None:
            return found
        left_out = {key: seq for key, (seq, _) in known.items() if seq in self.window.left_out}
        hashes = {hashed for key, hashed in asked.items() if key not in known and hashed}
        if not hashes and not left_out:
            return found
        newest: dict[str, tuple[bool, int, datetime]] = {}
        for row in self.window.source.items_of(hashes, left_out.values()):
            key = row["_dedup_key"]
            if key in asked and (key not in known or key in left_out):
                one = (self.is_open(row), row["_seq"], row["_enqueued_at"])
                newest[key] = max(newest.get(key, one), one)
        return found | {key: (seq, at, is_open) for key, (is_open, seq, at) in newest.items()}

    def _newest(self, key: str, seq: int, at: datetime, live: bool) -> tuple[int, datetime, bool]:  # noqa: FBT001
        """Return the newest open item of a key, or the newest at all."""
        left = [] if live or key not in self.chains else self.items.of_chain(self.chains[key])
        return (left[-1], at, True) if left else (seq, at, live)

    def open_of(self, held: Holders, *, is_begun: bool) -> list[Row]:
        """Return the rows of holders of keys that are open, or of those alone that have begun."""
        found = (seq for seq, _, is_open in held.values() if is_open)
        # What has begun is in memory.
        rows = filter(None, map(self.items.get if is_begun else self.find, found))
        return [row for row in rows if not is_begun or has_begun(row)]

    def find(self, seq: int) -> Row | None:
        """Return the newest row of an item that is ready or claimed, wherever it is."""
        if seq in self.items or self.window is None:
            return self.items.get(seq)
        found = [row for row in self.window.source.items_of((), (seq,)) if self.window.has(row)]
        return as_entered(found[0]) if found else None

    def is_open(self, row: Row) -> bool:
        """Tell of an item of the tables whether it is ready or claimed."""
        window = self.window
        return row["_seq"] in self.items or (window is not None and window.has(row))

    def look_up(self, step: int, *, lines: bool) -> None:
        """Drop the keys, and perhaps the lines, up to a step: they are looked up from now on."""
        if self.window is None:
            return
        self.keys.clear()
        self.window.left_out.clear()
        self.window.source.remember_to(step)
        if lines:
            self.ends.clear()
            self.window.looks_up_ends = True

    def learn_ends(self, lines: Collection[LineKey]) -> None:
        """Bring the last tags of some lines here."""
        if self.window is None or not self.window.looks_up_ends:
            return
        missing = [line for line in lines if line not in self.ends]
        if missing:
            self.ends |= dict.fromkeys(missing, 0.0) | dict(self.window.source.ends_of(missing))

    def forget_keys(self, scope: DedupScope, now: datetime) -> None:
        """Drop the dedup keys whose scope is over."""
        kept = kept_for(scope)
        if kept == math.inf:
            return
        self.keys = {
            key: (seq, at)
            for key, (seq, at) in self.keys.items()
            if seq in self.items
            or (now - at).total_seconds() < kept
            or (key in self.chains and self.items.of_chain(self.chains[key]))
        }
        self.chains = {key: chain for key, chain in self.chains.items() if key in self.keys}

    def claim_of(self, claim_id: str) -> tuple[int, RememberedClaim] | None:
        """Return the lease and the items of a claim, if remembered.

        One all of whose items were given back is none.
        """
        for lease, grant in self.grants.items():
            is_it = any(row["_claim_id"] == claim_id for row in grant.rows.values())
            if is_it and grant.given_back != grant.rows.keys():
                return lease, grant
        return None

    def enter(self, token: str, rows: Iterable[Row], *, is_seen: bool = True) -> None:
        """Apply a step of the item log; items the reader does not see give keys and tags only."""
        # What ends half way is known as of no step, and read again.
        self.queue = ""
        for row in rows:
            if row["_kind"] == ITEM:
                self._enter(row, is_seen=is_seen)
            elif row["_kind"] == KEY:
                line = (row["_priority"], row["_fair_key"])
                self.ends[line] = max(self.ends.get(line, 0.0), row["_round"])
        self.queue = token

    def follow(self, token: str, step: int, rows: Iterable[Row]) -> None:
        """Apply a step of the status log."""
        self.status, rows = "", list(rows)
        if any(row["_kind"] == SERVED for row in rows):
            # A checkpoint says all of it again, and a changed weight has moved it. Of debts it
            # leaves out those that are paid.
            self.served, self.debts, self.follower = {}, {}, None
        for row in rows:
            self._hand_out(row)
            if row["_kind"] == ITEM:
                self._move(row, step)
            elif row["_kind"] == RENEWAL:
                self._renew(row, step)
            elif row["_kind"] == RATE:
                self._owe(row, step)
        if len(self.grants) > 2 * _CLAIMS:
            self._forget_claims()
        self.status = token

    def _enter(self, row: Row, *, is_seen: bool) -> None:
        if row.get("_dedup_key") is not None:
            self.keys[row["_dedup_key"]] = (row["_seq"], row["_enqueued_at"])
            if row["_chain"] is not None:
                self.chains[row["_dedup_key"]] = row["_chain"]
            elif self.chains:
                self.chains.pop(row["_dedup_key"], None)
        if not is_seen:
            return
        if self.window is None or not self.window.leaves_out(row):
            self._wait(row)
        else:
            self.window.leave_out(row)

    def _bring(self, seqs: Collection[int]) -> list[Row]:
        """Let items of the tables wait here, and return them."""
        if self.window is None or not seqs:
            return []
        rows = [row for row in self.window.source.items_of((), seqs) if self.window.has(row)]
        for row in rows:
            self._wait(row)
        return rows

    def _wait(self, row: Row) -> None:
        """Let an item wait here that was not touched."""
        item = self.items[row["_seq"]] = as_entered(row)
        if self.window is not None:
            self.window.meet(row)
        if self.follower is not None:
            self.follower.put(item)

    # rule again: turns handed out
    def _hand_out(self, row: Row) -> None:
        given = row["_kind"] == SERVED or (row["_kind"] == ITEM and row["_state"] == CLAIMED)
        if given and row["_turn"] is not None:
            turn = ((row["_priority"], row["_fair_key"]), bool(row["_overdue"]))
            self.served[turn] = max(self.served.get(turn, row["_turn"]), row["_turn"])
            if self.follower is not None:
                self.follower.serve(turn[0], row["_turn"], overdue=turn[1])

    # rule: newest row of an item
    def _move(self, row: Row, step: int) -> None:
        seq, lease, state = row["_seq"], row.get("_lease"), row["_state"]
        item = {name: row.get(name) for name in STATE}
        known = self.items.get(seq, {})
        item |= {name: known.get(name) for name in KEPT if item.get(name) is None}
        if state == CLAIMED and lease == step:
            grant = self.grants.setdefault(lease, RememberedClaim({}, set(), row.get("_body")))
            grant.rows[seq] = {**item, "_at": row["_at"]}
            grant.left.add(seq)
        elif state != CLAIMED and lease in self.grants:
            self.grants[lease].left.discard(seq)
        elif is_given_back(row) and known.get("_lease") in self.grants:
            self.grants[known["_lease"]].given_back.add(seq)
        if self.window is not None:
            self.window.follow(known, item)
        if state not in TERMINAL:
            self.items[seq] = item
        elif seq in self.items:
            del self.items[seq]
        if self.follower is not None:
            self.follower.put(item)

    # rule again: renewal of a lease
    def _renew(self, row: Row, step: int) -> None:
        """Extend the lease of all that it still holds."""
        until = {name: row[name] for name in ("_at", "_lease_expires_at")}
        for item in self.items.in_flight():
            if item["_lease"] == row["_lease"]:
                self._move(item | until, step)

    # rule again: debt of a key
    def _owe(self, row: Row, step: int) -> None:
        debt = self.debts[row["_by"], row["_key"]] = debt_of(row)
        if step in self.grants:
            self.grants[step].charges[row["_by"], row["_key"]] = debt
        if self.follower is not None:
            self.follower.owe(row["_by"], row["_key"], debt)

    def _forget_claims(self) -> None:
        """Drop the oldest claims without items in flight."""
        held = {item["_lease"] for item in self.items.in_flight()}
        over = [lease for lease in sorted(self.grants) if lease not in held]
        for lease in over[:-_CLAIMS]:
            del self.grants[lease]
            self.has_forgotten = True
