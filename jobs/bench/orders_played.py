"""Small histories of a few processes that share a queue, and what has to hold after each order."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import orders_laws
from orders_disk import in_memory
from orders_process import Ground, Process
from orders_search import Search
from orders_world import Doom, World
from spark_queue import LeaseLostError, LocalQueue, QueueConfig, RetryPolicy
from spark_queue.claim import LocalClaim
from spark_queue.clock import ManualClock
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk import liveness
from spark_queue.log.disk.open_table import OpenTable
from spark_queue.state import replica_choice
from spark_queue.state.replica import Replica
from spark_queue.state.snapshot import Snapshot

Row = dict[str, Any]

LEASE = timedelta(minutes=1)

#: What is in the queue when a history begins: two of a group, and two of others.
BEGIN: tuple[Row, ...] = (
    {"k": "a", "g": "x"},
    {"k": "b", "g": "x"},
    {"k": "c", "g": "y"},
    {"k": "d", "g": "z"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What some processes do at the same time."""

    verbs: Sequence[str]
    """What each does, one after the other: ``"claim, ack"``; see :class:`Hand`."""
    holds: Sequence[int] = ()
    """How many items each has claimed before."""
    is_honoured: bool = True
    """Whether they wait for the right to write."""
    doom: Doom | None = None
    """Who is killed, and when."""
    scope: str = "forever"
    """How long a key is taken."""
    lapses: bool = False
    """Whether the leases of before are over."""

    def __str__(self) -> str:
        words = " | ".join(self.verbs)
        if self.holds:
            words += f" (holding {', '.join(map(str, self.holds))})"
        if self.lapses:
            words += ", leases over"
        if not self.is_honoured:
            words += ", without waiting"
        if self.doom is not None:
            first = ", its life first" if self.doom.is_life_first else ""
            words += f", {self.doom.number} killed at {self.doom.moment} {self.doom.nth}{first}"
        return words


@dataclass(slots=True, kw_only=True)
class Played:
    """What came of all orders of a history."""

    history: History
    orders: int = 0
    cut: int = 0
    """Runs that were left where nothing new was to come."""
    killed: int = 0
    """Orders in which the process that was to be killed came to its end."""
    outcomes: int = 0
    """What the tables may hold at the end."""
    faults: dict[str, str] = field(default_factory=dict)
    """By kind, the first fault in words."""


class Hand:
    """One process at work with a queue: does what verbs say, and writes down what it was told."""

    def __init__(self, number: int, queue: LocalQueue, time: Callable[[], int]) -> None:
        self.number, self.queue, self.told = number, queue, list[Row]()
        self.time = time
        self.claims: list[LocalClaim] = []
        self._made = 0

    def work(self, verbs: str) -> None:
        """Do one after the other."""
        try:
            for verb in verbs.split(", "):
                name, *given = verb.split(" ")
                getattr(self, name)(*given)
        except Exception:  # noqa: BLE001 - whatever it is, it is the finding
            self.tell("raised", error=traceback.format_exc())

    def tell(self, what: str, **more: object) -> None:
        """Write down a line."""
        self.told.append({"what": what, "life": self.number, "at": self.time(), **more})

    def put(self, key: str, group: str = "x") -> None:
        """Enqueue an item."""
        self.tell("put?", keys=[key])
        done = self.queue.enqueue({"k": key, "g": group})
        counts = {"inserted": done.inserted, "duplicates": done.duplicates}
        self.tell("put", keys=[key], step=done.step, **counts)

    def claim(self, limit: str = "1", claim_id: str | None = None) -> None:
        """Claim items; what comes to nothing is not told."""
        self.tell("claim?")
        claim = self.queue.claim(int(limit), run=int(limit), claim_id=claim_id)
        if not claim.count:
            return
        self.claims.append(claim)
        seqs = [row["_seq"] for row in claim.rows]
        self.tell("claim", lease=claim.lease, step=claim.lease, seqs=seqs)

    def ack(self) -> None:
        """Settle what was claimed first as done."""
        self._settle("ack", lambda claim: claim.ack())

    def nack(self) -> None:
        """Settle it as failed."""
        self._settle("nack", lambda claim: claim.nack("no"))

    def release(self) -> None:
        """Give it back."""
        self._settle("release", lambda claim: claim.release())

    def renew(self) -> None:
        """Hold it for longer."""
        if self.claims:
            try:
                self.claims[0].renew()
            except LeaseLostError as error:
                self.tell("lost", lease=self.claims[0].lease, error=str(error))

    def pause(self) -> None:
        """Have claims get nothing."""
        self.queue.pause()

    def resume(self) -> None:
        """Have them get something again."""
        self.queue.resume()

    def again(self) -> None:
        """Forget the queue, and open it again."""
        self.queue._store.forget()  # noqa: SLF001 - as a process does that begins
        self.queue = LocalQueue.open(
            self.queue.name,
            durability="process",
            clock=self.queue._store.clock,  # noqa: SLF001
        )

    def _settle(self, outcome: str, settle: Callable[[LocalClaim], Any]) -> None:
        if not self.claims:
            return
        claim = self.claims.pop(0)
        said = {row["_seq"]: outcome for row in claim.rows}
        self.tell("settle?", lease=claim.lease, said=said)
        try:
            done = settle(claim)
        except LeaseLostError as error:
            self.tell("lost", lease=claim.lease, error=str(error))
        else:
            self.tell("settle", lease=claim.lease, said=said, step=done.step)


class Stage:
    """Where histories are played, one after the other: a queue that is made once for each kind.

    Parameters
    ----------
    place : Path
        A directory of its own; in memory, if there is such a disk.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._clock = ManualClock()
        self._grounds: dict[str, Ground] = {}

    def play(self, history: History, *, most: int | None = None) -> Played:
        """Play every order of a history, or so many at most, and hold each against the laws."""
        path = self._place / history.scope
        with in_memory():
            if history.scope not in self._grounds:
                with Process().running():
                    _make(path, history.scope, self._clock)
                self._grounds[history.scope] = Ground(path, f"{history.scope}-begun")
            self._grounds[history.scope].restore()
            return _Play(path, history).all_of_them(most)


class _Play:
    """A history that is played."""

    def __init__(self, path: Path, history: History) -> None:
        self._history, self._path, self._clock = history, path, ManualClock()
        self._processes = {number: Process() for number in range(1, len(history.verbs) + 1)}
        self._ticks = 0
        self._maker = Hand(0, self._opened(), self._time)
        self._maker.tell("put?", keys=[row["k"] for row in BEGIN])
        self._hands = {number: self._begun(number) for number in self._processes}
        if history.lapses:
            self._clock.advance(2 * LEASE)
        self._queues = {n: hand.queue for n, hand in self._hands.items()}
        self._claims = {n: list(hand.claims) for n, hand in self._hands.items()}
        self._tables = {n: _tables_of(hand.queue) for n, hand in self._hands.items()}
        self._told = {n: list(hand.told) for n, hand in self._hands.items()}
        self._allowed = orders_laws.Allowed(
            lapses=history.lapses,
            shares=any("claim 1 " in verbs for verbs in history.verbs),
            returns=history.scope == "live",
        )
        self._anew: dict[str, Replica | None] = {}
        self._world = World(
            Ground(path, "kept"),
            self._processes,
            is_honoured=history.is_honoured,
            doom=history.doom,
        )

    def all_of_them(self, most: int | None) -> Played:
        """Play one order after another."""
        search, played = Search(), Played(history=self._history)
        while True:
            with self._world.patched():
                is_whole = self._world.play(search, self._works())
            if is_whole:
                played.killed += bool(self._world.deaths)
                for kind, text in self._faults():
                    played.faults.setdefault(kind, text)
            goes_on = search.again(is_whole=is_whole)
            if not goes_on or search.whole == most:
                played.orders, played.cut = search.whole, search.cut
                played.outcomes = len(self._anew)
                return played

    def _begun(self, number: int) -> Hand:
        """Return a hand that has opened the queue, and knows it."""
        with self._processes[number].running():
            hand = Hand(number, self._opened(), self._time)
            hand.tell("life", name=liveness.mine(self._path / "status"))
            for count in self._history.holds[number - 1 : number]:
                if count:
                    hand.claim(str(count))
            _known(hand.queue)
        return hand

    def _opened(self, clock: ManualClock | None = None) -> LocalQueue:
        return LocalQueue.open(self._path, durability="process", clock=clock or self._clock)

    def _time(self) -> int:
        self._ticks += 1
        return self._ticks

    def _works(self) -> Mapping[int, Callable[[], None]]:
        works: dict[int, Callable[[], None]] = {}
        for number, verbs in enumerate(self._history.verbs, 1):
            hand = self._hands[number]
            hand.claims, hand.told = list(self._claims[number]), list(self._told[number])
            hand.time, hand.queue = self._world.time, self._queues[number]
            for log, table in self._tables[number]:
                log._opened = copy.deepcopy(table)  # noqa: SLF001 - as it was before the first run
            works[number] = partial(hand.work, verbs)
        return works

    def _faults(self) -> Iterator[tuple[str, str]]:
        """Return what is wrong after a run, by kind.

        What was not seen before is worked off: whatever else led to the same tables ends the same.
        """
        rows = orders_laws.Rows.of(self._path)
        key, links = rows.key(), list(self._world.links)
        is_new = key not in self._anew
        if is_new:
            with Process().running():
                self._anew[key] = _known(self._opened())
        for number, process in self._world.processes.items():
            if number not in self._world.deaths:
                with process.running():
                    known = _known(self._hands[number].queue)
                yield from orders_laws.differences(known, self._anew[key])
        hands, deaths = [self._maker, *self._hands.values()], self._world.deaths
        allowed = self._allowed
        if is_new and allowed.shares:
            yield from self._told_faults(rows, hands, links, replace(allowed, stays=True))
            # What a claim holds by its id alone comes back when its lease is over.
            allowed = replace(allowed, lapses=True)
        if is_new:
            for number in self._world.processes.keys() - deaths.keys():
                self._world.processes[number].end_life()
                deaths[number] = self._world.time()
            hands.append(self._drained())
            rows = orders_laws.Rows.of(self._path)
        yield from self._told_faults(rows, hands, links, replace(allowed, stays=not is_new))

    def _told_faults(
        self,
        rows: orders_laws.Rows,
        hands: Sequence[Hand],
        links: Sequence[tuple[str, int]],
        allowed: orders_laws.Allowed,
    ) -> Iterator[tuple[str, str]]:
        lines = [line for hand in hands for line in hand.told]
        yield from orders_laws.faults(rows, lines, self._world.deaths, links, allowed)

    def _drained(self) -> Hand:
        """Work off what is left, in peace: at once, save what a claim holds by its id alone."""
        later = 2 * LEASE if self._allowed.shares else timedelta(0)
        with Process().running():
            queue = self._opened(ManualClock(self._clock.now() + later))
            hand = Hand(99, queue, self._world.time)
            hand.tell("life", name=liveness.mine(self._path / "status"))
            hand.work("resume, claim 9, ack" if hand.queue.paused else "claim 9, ack")
        return hand


def _tables_of(queue: LocalQueue) -> list[tuple[DeltaLog[Any], OpenTable | None]]:
    """Return the logs that a handle has opened, and what it knows of each."""
    logs = queue._store.handle.place._logs.values()  # noqa: SLF001 - they are not to be shared
    mine = (log for log in logs if isinstance(log, DeltaLog))
    return [(log, log._opened) for log in mine]  # noqa: SLF001 - as above


def _make(path: Path, scope: str, clock: ManualClock) -> None:
    config = QueueConfig(
        dedup_key="k",
        dedup_scope=scope,  # type: ignore[arg-type]
        group_key="g",
        lease=LEASE,
        max_losses=None,
        retry=RetryPolicy(delay=timedelta(0)),
    )
    columns = "k string, g string"
    queue = LocalQueue.create(path, columns, config, durability="process", clock=clock)
    queue.enqueue(list(BEGIN))


def _known(queue: LocalQueue) -> Replica | None:
    """Return what this process knows of a queue, brought up to its tables."""
    return replica_choice.at_hand(Snapshot(queue._store))  # noqa: SLF001 - what users are not told
