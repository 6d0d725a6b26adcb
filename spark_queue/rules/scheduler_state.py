"""The state of a scheduler: its items and counters, and the transitions that all steps share."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import get_args

from spark_queue.config import QueueConfig
from spark_queue.rules.bounds import Bounds, Pass
from spark_queue.rules.dedup_keys import Distinct
from spark_queue.rules.fairness import OneLine, Turns
from spark_queue.rules.grouping import Serial, Ungrouped
from spark_queue.rules.pacing import Charges, Debt
from spark_queue.rules.parted import LimitedLines
from spark_queue.rules.places import Place, State, Terminal, freed_at
from spark_queue.rules.ready import Line
from spark_queue.rules.replacing import Replacing, ReplacingChains, place_of
from spark_queue.rules.rule_model import Admitted, Grant, NewItem, Record
from spark_queue.rules.timing import KeyPauses, PausedKeys, Timing

TERMINAL: frozenset[str] = frozenset(get_args(Terminal))

#: States that a redrive leads out of, by a new item.
REDRIVABLE = TERMINAL - {"acked"}


class SchedulerState:
    """Items, counters, leases, and one object per rule, chosen when it is made.

    Attributes
    ----------
    clock : float
        The latest time that any step was given: time never runs backwards.
    records : dict
        The items by seq; without ``keep_finished`` the live ones only.
    refused : dict
        The holder of the key, by the seq of the refused row.
    leases : dict
        What each lease still holds.
    grants : dict
        The grants, by claim id.
    charges : dict
        What keys owed after each lease that still holds something.
    """

    def __init__(self, config: QueueConfig, *, keep_finished: bool) -> None:
        self.config = config
        self.keep_finished = keep_finished
        self.step = 0
        self.last_seq = 0
        self.clock = float("-inf")
        self.paused = False
        self.run = 1
        self.tally: Counter[str] = Counter()
        self.records: dict[int, Record] = {}
        self.refused: dict[int, int] = {}
        self.leases: dict[int, set[int]] = {}
        self.grants: dict[str, Grant] = {}
        self.charges: dict[int, Charges] = {}
        self._claim_ids: dict[int, str] = {}
        self._raised: dict[int, float] = {}
        self.pauses: KeyPauses | None = None
        self.chains: ReplacingChains | None = None
        self.line = self._bounded_line()
        self.turns = OneLine({}) if config.fair_key is None else Turns(config.weights)
        self.timing = Timing(self.records)
        self.distinct = None if config.dedup_key is None else Distinct(config.dedup_scope)
        self.serial = self._grouping()

    def begin(self, now: float | None = None) -> int:
        """Start a step: give it its number, and let time pass."""
        self.step += 1
        self._raised.clear()
        self.turns.begin()
        if now is not None:
            self.pass_time(now)
        return self.step

    def pass_time(self, now: float) -> None:
        """Let time pass; it never runs backwards."""
        self.clock = max(self.clock, now)

    def admit(
        self,
        new: NewItem,
        origin: int | None = None,
        replacing: Replacing | None = None,
        later: int | None = None,
    ) -> Admitted:
        """Accept a row as an item, or refuse it as a duplicate.

        Parameters
        ----------
        replacing : Replacing, optional
            Whether and how it replaces others of its key.
        later : int, optional
            A later row of the step that replaces it.
        """
        self.last_seq += 1
        seq = self.last_seq
        holder = None
        if self.distinct is not None:
            holder = self.distinct.holder(new.dedup_key, self.clock, origin)
        older = None if replacing is None or holder is None else self._replaceable(holder)
        is_free = holder is None or older is not None
        other = later if is_free else holder
        if other is None:
            return self._accept(seq, new, origin, replacing, older)
        self.tally["refused"] += 1
        if self.keep_finished:
            self.refused[seq] = other
        holding, record = None, self.records.get(other)
        if self.distinct is not None and not is_free:
            is_begun = record is not None and record.is_busy
            holding = self.distinct.holding_of(new.dedup_key, other, is_begun=is_begun)
        return Admitted(seq=seq, duplicate_of=other, holder=holding, origin=origin)

    # rule: replaced item of a key
    def _replaceable(self, holder: int) -> Record | None:
        """Return the holder of a key where a put replaces or follows it."""
        record = self.records.get(holder)
        if record is None or record.state in TERMINAL:
            return None
        return record if self.config.dedup_scope == "live" or not record.is_busy else None

    # rule: redrive of an ended item
    def redrive(self, seqs: Iterable[int], *, again: bool) -> list[Admitted]:
        """Enqueue finished items again, but acked ones.

        Those with a successor, and those that another of their key has replaced, only if asked.
        """
        redriven = set() if again else {record.origin for record in self.records.values()}
        admitted = []
        for seq in seqs:
            record = self.records.get(seq)
            if record is None or record.state not in REDRIVABLE or seq in redriven:
                continue
            if record.is_replaced and not again:
                continue
            new = dataclasses.replace(record.new, available_at=None, expires_at=None)
            answer = self.admit(new, origin=seq)
            if answer.duplicate_of is None and not again:
                redriven.add(seq)
            admitted.append(answer)
        return admitted

    def move(self, record: Record, place: Place) -> None:
        """Bring an item to another place, and tell its followers."""
        old, record.place = record.place, place
        self.timing.move(record, old, place)
        self.serial.move(record, old, place)
        if self.chains is not None:
            for other in self.chains.look_at(record):
                self.move(other, other.place_at(self.clock))

    def hold(self, record: Record, lease: int, expires_at: float, worker_id: str) -> None:
        """Lease an item, replacing its current lease."""
        self._drop_lease(record)
        record.lease, record.lease_expires_at = lease, expires_at
        record.freed_at = freed_at(expires_at, self.config)
        record.worker_id = worker_id
        self.leases.setdefault(lease, set()).add(record.seq)
        self._set_state(record, "claimed")
        self.move(record, "held")

    def give_back(self, record: Record) -> None:
        """Make a claimed item ready again, at its place."""
        self._drop_lease(record)
        self._set_state(record, "ready")
        self.move(record, record.place_at(self.clock))

    def finish(self, record: Record, state: Terminal, error: str | None = None) -> None:
        """Bring an item to a terminal state, and free its key, its group and its slot."""
        self._drop_lease(record)
        self._set_state(record, state)
        record.finished_at = self.clock
        record.error = record.error if error is None else error
        self.move(record, "done")
        if self.pauses is not None:
            self.pauses.leave(record)
        if self.chains is not None:
            self.chains.leave(record)
        if self.distinct is not None:
            self.distinct.leave(record.new.dedup_key, record.seq, self.clock)
        self.turns.leave(record.account)
        record.raw_tag = record.account.tag(record.raw_tag)
        if not self.keep_finished:
            del self.records[record.seq]

    def holding(self, lease: int, seq: int) -> Record | None:
        """Return an item if the lease still holds it: neither settled nor taken over."""
        record = self.records.get(seq)
        is_held = record is not None and is_held_by(lease, record.state, record.lease)
        return record if is_held else None

    def remember(self, claim_id: str, grant: Grant) -> None:
        """Keep a grant, to answer the same claim again."""
        if self.keep_finished or grant.items:
            self.grants[claim_id] = grant
            self._claim_ids[grant.lease] = claim_id

    def room(self, freed: int = 0) -> int | None:
        """Return how many more items may be in flight, when some claimed ones have ended."""
        return room_beside(self.tally["claimed"] - freed, self.config.max_in_flight)

    def enter(self, record: Record) -> None:
        """Enter a live item for the rules to follow."""
        self.records[record.seq] = record
        if self.bounds.is_any:
            self.set_bounds(record)
        if self.pauses is not None:
            self.pauses.join(record)
            record.kept_until = self.pauses.end_of(record.new)
        if record.chain is not None and self.chains is None:
            self.chains = ReplacingChains(self.records)
        if self.chains is not None:
            self.chains.join(record)
        self.turns.join(record.account)
        # A lease that ran out is noted when time passes.
        self.move(record, "held" if record.state == "claimed" else record.place_at(self.clock))

    def pause_keys(self, keys: PausedKeys) -> None:
        """Put pauses of keys in force, in the place of those before."""
        if not keys and self.pauses is None:
            return
        if self.pauses is None:
            self.pauses = KeyPauses(self.config)
            for record in self.records.values():
                if record.state not in TERMINAL:
                    self.pauses.join(record)
        for seq in sorted(self.pauses.change(keys)):
            self.keep(self.records[seq], self.pauses.end_of(self.records[seq].new))
        if not keys:
            self.pauses = None

    def keep(self, record: Record, until: float) -> None:
        """Keep a live item out of the lines until an instant, if that lies ahead.

        One that waits counts as one that waits for its time. One that is claimed goes on; if its
        lease runs out before, it has its slots until then, and none takes it over.
        """
        if record.kept_until != until:
            record.kept_until = until
            self.move(record, record.place_at(self.clock))

    def set_bounds(self, record: Record) -> None:
        """Set the bounded keys of an item, and count it where it is in flight."""
        record.limited, record.asked = self.bounds.find(record.new.keys, record.new.units)
        self.count(record, 1)

    def count(self, record: Record, by: int) -> None:
        """Count an item in or out of those in flight, by its bounded keys, where it is claimed."""
        if record.state == "claimed":
            self.bounds.in_flight.count(record.limited, by)

    def start_pass(self) -> Pass | None:
        """Return a claim's pass; None without bounds."""
        return self.bounds.start_pass(self.clock) if self.bounds.is_any else None

    def charge(self, lease: int, debts: Iterable[tuple[str, Hashable, Debt]]) -> None:
        """Let keys owe what a claim charged to them."""
        charged = {(by, key): debt for by, key, debt in debts}
        for (by, key), debt in charged.items():
            self.bounds.paces.learn(by, key, debt)
        if charged:
            self.charges[lease] = charged

    def change_bounds(self, config: QueueConfig) -> None:
        """Put other bounds in force, and let all items stand in the line again."""
        was, before, waiting = self.line, self.bounds, [*self.records.values()]
        waiting = [record for record in waiting if record in was]
        self.config = config
        self.line = self._bounded_line()
        self.bounds.keep(before, self.clock)
        for record in self.records.values():
            record.limited = record.asked = ()
            if self.bounds.is_any and record.place != "done":
                self.set_bounds(record)
        self.serial.stand_in(self.line)
        for record in waiting:
            self.line.add(record)

    def _bounded_line(self) -> Line:
        self.bounds = Bounds(self.config)
        if not self.bounds.is_any:
            return Line(self.records)
        line = LimitedLines(self.records, self.bounds.in_flight.is_full)
        self.bounds.in_flight.tell = line.look_at
        return line

    # rule: place of a new member
    def _accept(
        self,
        seq: int,
        new: NewItem,
        origin: int | None,
        replacing: Replacing | None,
        older: Record | None,
    ) -> Admitted:
        bound = self.serial.predecessor(new.group_key)
        priority = 0 if self.config.priority is None else new.priority
        if bound is not None:
            priority = min(priority, bound.priority)
        account = self.turns.account(priority, new.fair_key)
        floor = None
        if bound is not None and bound.priority == priority:
            # A turn is not the same, to the last digit, once it was stored as a tag.
            floor = self._raised.get(bound.seq, bound.tag)
        kept = new.tag if older is None else place_of(older, account, new)
        raw_tag, turn = self.turns.stamp(account, seq, new.cost, floor, kept)
        if floor is not None:
            self._raised[seq] = turn
        record = Record(
            seq=seq,
            new=new,
            priority=priority,
            account=account,
            raw_tag=raw_tag,
            enqueued_at=self.clock,
            available_at=new.available_at,
            origin=origin,
        )
        if replacing is not None:
            replacing.chain(record, older, self.clock)
        self.tally["enqueued"] += 1
        self.tally["ready"] += 1
        self.enter(record)
        if self.distinct is not None:
            self.distinct.take(new.dedup_key, seq, self.clock)
        if older is None:
            return Admitted(seq=seq, origin=origin)
        if older.is_busy:
            return Admitted(seq=seq, origin=origin, follows=older.seq)
        return Admitted(seq=seq, origin=origin, replaces=older.seq)

    def _set_state(self, record: Record, state: State) -> None:
        self.tally[record.state] -= 1
        self.tally[state] += 1
        if not self.bounds.is_any:
            record.state = state
        elif record.state != state:
            self.count(record, -1)
            record.state = state
            self.count(record, 1)

    def _drop_lease(self, record: Record) -> None:
        lease = record.lease
        record.lease = record.lease_expires_at = record.freed_at = None
        if lease is None:
            return
        self.leases[lease].discard(record.seq)
        if not self.leases[lease]:
            del self.leases[lease]
            self.charges.pop(lease, None)
            if not self.keep_finished and (claim_id := self._claim_ids.pop(lease, None)):
                del self.grants[claim_id]

    def _grouping(self) -> Ungrouped:
        config = self.config
        if config.group_key is None:
            return Ungrouped(self.line)
        return Serial(
            self.line,
            self.records,
            limit=config.group_limit,
            blocking=config.on_failure == "block",
        )


def check_hashable(new: NewItem) -> None:
    """Refuse keys that cannot be compared, before anything is changed."""
    keys: tuple[Hashable, ...] = (new.dedup_key, new.fair_key, new.group_key, new.flow_keys)
    hash(keys)


# rule: holder of a lease
def is_held_by(lease: int, state: str, of: int | None) -> bool:
    """Tell whether a lease holds an item in a state and of a lease."""
    return state == "claimed" and of == lease


# rule: room of a claim
def room_beside(in_flight: int, most: int | None) -> int | None:
    """Return how many more items may be in flight beside some, or None for any number."""
    return None if most is None else max(0, most - in_flight)
