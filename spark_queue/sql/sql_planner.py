"""Decisions by SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from spark_queue.config import QueueConfig
from spark_queue.errors import SparkNeededError
from spark_queue.flow import has_pass, is_paced
from spark_queue.log.heads import StatusHead
from spark_queue.log.job_descriptions import named
from spark_queue.log.schema import CLAIMED, READY
from spark_queue.log.session_options import PlainSession
from spark_queue.log.settings import Settings
from spark_queue.reader_config import ReaderConfig
from spark_queue.rules.bounds import Played
from spark_queue.rules.limiting import keys_of
from spark_queue.rules.places import freed_at
from spark_queue.rules.replacing import waits_of
from spark_queue.rules.rule_model import Reason
from spark_queue.sql import checkpointing, choosing, database, settlement
from spark_queue.sql.choosing import SqlChoice
from spark_queue.sql.decisions import (
    TOO_MUCH,
    Coming,
    Frame,
    GivenRows,
    Leaving,
    LogPosition,
    StagedCheckpoint,
)
from spark_queue.sql.log_rows import TooManyRowsError
from spark_queue.sql.look import instant_of
from spark_queue.sql.operating import ItemPlanner
from spark_queue.sql.sql_engines import HERE, SqlEngine, asked_at
from spark_queue.state import claim_decision, replica_choice
from spark_queue.state.claim_decision import Outlook
from spark_queue.state.open_items import ChainMember, OpenItems, Row
from spark_queue.state.replica import Replica
from spark_queue.state.request import Choice, Request
from spark_queue.state.schedulers import expires_at
from spark_queue.state.settle_decision import StagedSettle, Verdict
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_T = TypeVar("_T")

#: How many items are open at most where a claim is played to count them, and to say of one why it
#: waits: a process holds each that comes before it.
_COUNTED, _EXPLAINED = 50_000, 1_000_000


@dataclass(frozen=True, slots=True)
class SqlPlanner(ItemPlanner):
    """Decides the steps of a queue by its tables, as one of its readers sees them.

    What it returns is computed, and not committed; its rows are frames of its own. It decides a
    step as of the snapshot of the try, and asks for nothing newer. What only a session of Spark can
    do, it refuses.
    """

    @named("claim")
    def choose(self, at: Snapshot, request: Request, now: datetime) -> Choice | None:
        """Choose for a claim; ``None`` for nothing to write.

        Raises
        ------
        EvidenceFirst
            When it would take over an item of a claim that names an output.
        """
        return self.decide("to claim from", partial(choosing.choose, at, request, now, None))

    @named("explain")
    def play(self, now: datetime, item: int | None = None) -> Played:
        """Return what a claim of any length would take; nothing is written.

        Where neither a limit nor a rate keeps items back none starts in the place of another. Of
        too many items none is played.

        Parameters
        ----------
        item : int, optional
            The item that is asked about: it is played of many more, until it takes this one.
        """
        at = Snapshot(self.store)
        config = at.settings.config
        has_rules = has_pass(config) or config.max_in_flight is not None
        is_many = at.outstanding > (_COUNTED if item is None else _EXPLAINED)
        if at.settings.paused or not has_rules:
            return Played()
        if is_many:
            return Played(judges_each=True)
        try:
            return self.decide("to look at", partial(choosing.play, at, now, item, None))
        except SparkNeededError:
            # A claim of a few of them is decided here all the same.
            return Played(judges_each=True)

    @named("look at what waits")
    def coming(self, at: Snapshot, now: datetime) -> Coming:
        """Return when time alone lets an item run; never in a paused queue."""
        with at.cache.lock:
            replica = replica_choice.at_hand(at)
            if replica is not None and replica.horizon() is None:
                return _coming_of(replica, at, now)
        return self.coming_by_tables(at, now)

    def coming_by_tables(self, at: Snapshot, now: datetime) -> Coming:
        """Return the same by the tables; see :meth:`coming`."""
        with self._look(asked=self._question(at, now)) as look:
            look.fold(at)
            (found,) = look.rows("next_times")
        held_until = _instant(found["held_until"])
        if at.settings.paused:
            return Coming(held_until=held_until)
        counts = {name: found[name] for name in ("delayed", "paused", "follows")}
        starts = self._next_start(at, now, held_until)
        if not starts.is_open and not found["ending"]:
            held_until = _instant(found["held_later"])
        times = [_instant(found["due"]), _start_of(starts)]
        if _has_heads(at.settings.config):
            times.append(_instant(found["ends_at"]))
        due = min(filter(None, times), default=None)
        return Coming(held_until=held_until, due=due, **counts)

    # rule again: next event
    def _next_start(self, at: Snapshot, now: datetime, held_until: datetime | None) -> Outlook:
        """Return whether an item may start, and when the first may that units of a rate keep back.

        What only Spark can say, where this process has none, counts as open.
        """
        if not _is_played(at.settings.config, held_until, now):
            return _OPEN
        try:
            played = self.decide("to look at", partial(choosing.play, at, now, None, 1))
        except SparkNeededError:
            return _OPEN
        return Outlook(bool(played.starting), played.next_at)

    def _question(self, at: Snapshot, now: datetime) -> dict[str, object]:
        """Return the row of a question about what waits."""
        asked = asked_at(now, at.settings.config, at.reader_config.max_age)
        return asked | {"paused": at.settings.paused, "play": partial(self.play, now)}

    @named("count what waits")
    def count_reasons(self, at: Snapshot, now: datetime) -> dict[Reason, int]:
        """Return how many open items there are by the reason why they are not running."""
        with self._look(asked=self._question(at, now), has_values=False) as look:
            for name in ("status", "with_place_of_status"):
                look.share(name)
            return {row["reason"]: row["items"] for row in look.rows("counts_by_reason")}

    @named("claim")
    def with_output(self, leases: Collection[int]) -> dict[int, str]:
        """Return the claims, by their leases, that name an output."""
        return self.decide(
            "to look at claims of", lambda engine: engine.logs.with_output(self.store, leases)
        )

    @named("settle")
    def judge(self, at: Snapshot, lease: int, verdict: Verdict, now: datetime) -> StagedSettle:
        """Judge the items of a lease."""
        settle = partial(settlement.settle, at, lease, verdict, now)
        return self.decide("to settle items of", settle)

    @named("settle")
    def debts(self, at: Snapshot) -> pa.Table:
        """Return rows of what keys owe, since the checkpoint and of it."""
        return self.decide(
            "to read the debts of", lambda engine: engine.logs.debts_of(self.store, at.status)
        )

    @named("settle and claim")
    def chosen_after(
        self, at: Snapshot, done: StagedSettle, settled: StatusHead, request: Request, now: datetime
    ) -> tuple[Choice, Any] | None:
        """Choose for a claim in the step of a settle; ``None`` for nothing.

        Parameters
        ----------
        done : StagedSettle
            What the settle would write.
        settled : StatusHead
            The head after that, at the same step: both are to be one.

        Returns
        -------
        tuple of Choice and rows
            What is chosen, and the rows of both as they are logged.
        """

        def decide(engine: SqlEngine) -> tuple[SqlChoice, Any] | None:
            stage = choosing.choose(at, request, now, (settled, done.rows), engine)
            return None if stage is None else (stage, engine.logs.joined(stage.table(), done.rows))

        try:
            return self.decide("to claim from", decide)
        except SparkNeededError:
            # The settle needs none.
            return None

    @named("checkpoint")
    def checkpoint(
        self, at: Snapshot, changed: Settings | None = None, beside: pa.Table | None = None
    ) -> StagedCheckpoint:
        """Return the rows of a checkpoint as of a step.

        Parameters
        ----------
        changed : Settings, optional
            The settings from then on, if they are others.
        beside : pyarrow.Table, optional
            Rows that the step writes as well, before those of the checkpoint.
        """
        stage = partial(checkpointing.stage, at, changed, beside)
        return self.decide("to write a checkpoint of", stage)

    def decide(self, what: str, decide: Callable[[SqlEngine], _T]) -> _T:
        """Decide by the first engine that can.

        Raises
        ------
        SparkNeededError
            When none is left; it names the use.
        """
        for engine in self._engines(f"{what} {self.store.name!r}"):
            with suppress(TooManyRowsError):
                return decide(engine)
        raise LookupError("the last engine takes any number of rows")

    def _engines(self, what: str) -> Iterator[SqlEngine]:
        if Snapshot(self.store).are_files_read or isinstance(self.store.session, PlainSession):
            yield HERE
        yield from self.session_engines(what)

    def session_engines(self, what: str) -> Iterator[SqlEngine]:
        """Return the session's engines of SQL, the one for fewer rows first.

        Raises
        ------
        SparkNeededError
            When there is none; it names the use.
        """
        why = f"it would read more than {database.most_rows():,} rows of the logs, which is what"
        raise SparkNeededError(
            what, f"{why} {database.MEMORY}={database.memory_setting()} has room for"
        )

    def frame(self, given: GivenRows) -> Frame:
        """Check a frame, compute its keys, and evaluate it.

        Raises
        ------
        SchemaMismatchError
            When it does not fit the queue; it names the column.
        """
        del given
        raise SparkNeededError(f"to enqueue into {self.store.name!r}", TOO_MUCH)

    def outcomes(self, step: int, logged: pa.Table | None) -> DataFrame:
        """Return what became of each row of an enqueue; ``logged`` where its rows are at hand."""
        del logged
        raise SparkNeededError(f"to read what step {step} did", "it is asked for as a frame")

    def leaving(
        self, at: Snapshot, reader_config: ReaderConfig, target: str, since: LogPosition
    ) -> Leaving | None:
        """Return the items that ended from there on and go to a target; ``None`` for no item."""
        del at, reader_config, since
        raise SparkNeededError(f"to send items to {target!r}", "their keys are compared by tables")


def of(store: Store) -> SqlPlanner:
    """Return the planner of a store that has no session of Spark."""
    return SqlPlanner(store)


#: When a pause ends that lasts until its key is resumed.
_NEVER = datetime.max.replace(tzinfo=timezone.utc)

#: Of a queue in which nothing keeps an item back that nobody holds.
_OPEN = Outlook(is_open=True, until=None)


# rule again: next event
def _coming_of(replica: Replica, at: Snapshot, now: datetime) -> Coming:
    """Count delayed items in memory; none in a paused queue."""
    rows, settings = replica.items.values(), at.settings
    kept = _kept_until(rows, settings, now)
    held = [row for row in rows if row["_state"] == CLAIMED]
    ends = (freed_at(row["_lease_expires_at"], settings.config) for row in held)
    frees = [max(end, kept.get(row["_seq"], end)) for row, end in zip(held, ends, strict=True)]
    held_until = _instant_of(min(frees, default=_NEVER))
    if settings.paused:
        return Coming(held_until=held_until)
    starts = _OPEN
    if _is_played(settings.config, held_until, now):
        starts = claim_decision.next_start(replica, at.status, at.terms, now)
    if not starts.is_open:
        held_until = _instant_of(min((free for free in frees if free > now), default=_NEVER))
    ready = [row for row in rows if row["_state"] == READY]
    following = _followers(replica.items)
    times = {row["_seq"]: row["_available_at"] or now for row in ready}
    paused, follows = len(kept.keys() & times.keys()), len(following - kept.keys())
    late = {seq: max(by, kept.get(seq, now)) for seq, by in times.items() if seq not in following}
    delayed = sum(by > now and seq not in kept for seq, by in late.items())
    blocking = ready if _has_heads(settings.config) else []
    over = filter(None, (expires_at(row, at.reader_config) for row in blocking))
    next_ones = [_start_of(starts) or _NEVER, *(by for by in (*late.values(), *over) if by > now)]
    due = _instant_of(min(next_ones))
    return Coming(held_until=held_until, delayed=delayed, paused=paused, follows=follows, due=due)


def _is_played(config: QueueConfig, held_until: datetime | None, now: datetime) -> bool:
    """Tell whether only a claim says when an item starts: units, or what is before it, hold it."""
    return is_paced(config) or (held_until is not None and held_until <= now)


def _has_heads(config: QueueConfig) -> bool:
    """Tell whether an item may stand behind one that cannot start, until that one is over."""
    return has_pass(config) or config.group_key is not None


def _followers(items: OpenItems) -> set[int]:
    """Return the items that wait until one of their key is over that has begun."""
    found: set[int] = set()
    for chain in items.chains():
        _, newest, busy = waits_of([ChainMember.of(items[seq]) for seq in chain])
        if newest is not None and busy is not None:
            found.add(newest.seq)
    return found


def _kept_until(rows: Collection[Row], settings: Settings, now: datetime) -> dict[int, datetime]:
    """Return until when items of paused keys are kept back."""
    if not settings.paused_at(now):
        return {}
    found = {row["_seq"]: settings.pause_on(keys_of(row), now) for row in rows}
    return {seq: one.until or _NEVER for seq, one in found.items() if one is not None}


def _start_of(starts: Outlook) -> datetime | None:
    return None if starts.until is None else datetime.fromtimestamp(starts.until, timezone.utc)


def _instant_of(time: datetime) -> datetime | None:
    return time if time < _NEVER else None


def _instant(micros: int | None) -> datetime | None:
    return None if micros is None else instant_of(micros)
