"""The scheduler: every rule of a queue, as pure steps over state in memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar, cast, get_args

from spark_queue.config import QueueConfig
from spark_queue.rules import explain, following, granting
from spark_queue.rules.following import dump, load
from spark_queue.rules.outcomes import cancel, purge, renew, settle
from spark_queue.rules.pacing import Debt
from spark_queue.rules.places import State
from spark_queue.rules.replacing import Replacing
from spark_queue.rules.rule_model import (
    Admitted,
    Grant,
    ItemReason,
    NewItem,
    Outcome,
    Record,
    Settled,
)
from spark_queue.rules.scheduler_state import TERMINAL, SchedulerState, check_hashable
from spark_queue.rules.service_order import Horizon
from spark_queue.rules.timing import PausedKeys

_GrantT = TypeVar("_GrantT", Grant, Grant | None)


class Scheduler:
    """Decides which items run next, and records their outcomes.

    Every mutating call is one numbered step, and the step that grants a lease is its name. Times
    are seconds on any one scale; a time earlier than one seen before counts as the later one. The
    same calls give the same answers, in any process: there is no clock, chance or thread in here.
    It is not thread-safe; the caller serialises.

    Parameters
    ----------
    config : QueueConfig
        What is identified and limited. A key that the configuration does not name is ignored on
        the items, and its rule costs nothing.
    keep_finished : bool
        Whether finished items, refused rows and settled grants stay, to be looked at, redriven and
        purged. Without, the scheduler keeps only its live items, and the keys that
        ``dedup_scope`` keeps.

    Examples
    --------
    >>> from spark_queue.rules.rule_model import Ack
    >>> scheduler = Scheduler(QueueConfig(fair_key="tenant"))
    >>> _ = scheduler.admit([NewItem(payload=p, fair_key=p[0]) for p in ("a1", "a2", "b1")], 0.0)
    >>> grant = scheduler.claim(0.0, 2)
    >>> [item.payload for item in grant.items]
    ['a1', 'b1']
    >>> scheduler.settle(grant.lease, {item.seq: Ack() for item in grant.items}, 1.0).lost
    ()
    """

    def __init__(self, config: QueueConfig, *, keep_finished: bool = True) -> None:
        self._state = SchedulerState(config, keep_finished=keep_finished)

    @property
    def config(self) -> QueueConfig:
        """The configuration in force."""
        return self._state.config

    @property
    def step(self) -> int:
        """The number of steps so far."""
        return self._state.step

    @property
    def paused(self) -> bool:
        """Whether claims are answered with nothing."""
        return self._state.paused

    def admit(
        self,
        items: Iterable[NewItem],
        now: float,
        origins: Mapping[int, int] | None = None,
        replacing: Replacing | None = None,
    ) -> list[Admitted]:
        """Enqueue items, in order. Duplicates are refused one by one, with the holder's seq.

        Items that replace others are not: of a key the last one enters.

        Parameters
        ----------
        items : iterable of NewItem
            The items.
        now : float
            The time.
        origins : mapping, optional
            By the place of an item among these, from 0, the finished item that it repeats: that one
            is not in its way.
        replacing : Replacing, optional
            That they replace others, and how.
        """
        items, named = list(items), origins or {}
        for place, new in enumerate(items):
            check_hashable(new)
            if new.units and place not in named:
                self._state.bounds.paces.require_fit(new.keys, new.units)
        self._state.begin(now)
        admit = self._state.admit
        if replacing is None:
            return [admit(new, named.get(place)) for place, new in enumerate(items)]
        first = self._state.last_seq + 1
        last = {new.dedup_key: first + n for n, new in enumerate(items)}
        last.pop(None, None)
        later = (last.get(new.dedup_key) for new in items)
        return [
            admit(new, None, replacing, None if end in (None, first + n) else end)
            for n, (new, end) in enumerate(zip(items, later, strict=True))
        ]

    def claim(
        self,
        now: float,
        limit: int,
        *,
        lease: float | None = None,
        run: int = 1,
        worker_id: str = "",
        claim_id: str | None = None,
    ) -> Grant:
        """Lease the next items, in order of service.

        A claim first ends what has ended: items past their deadline are expired, items that lost
        their last lease are dead, and what they held is free in this same step. A paused queue
        grants nothing, and ends nothing. Where the queue has no slot in flight for an item that is
        next, only items whose lease ran out, which have one, are granted from there on, as if
        nothing else waited.

        Parameters
        ----------
        now : float
            The time.
        limit : int
            At most so many items; none for 0 or less.
        lease : float, optional
            How many seconds the lease holds. Default: the configuration's.
        run : int
            Up to so many consecutive items of one group, for one worker to run one after another.
            A change of it from one claim to the next costs a pass over the groups.
        worker_id : str
            Who claims; kept with the items.
        claim_id : str, optional
            The same id again gets the same grant again, and is no step.

        Raises
        ------
        InvalidArgumentError
            When ``run`` or ``lease`` is out of its range.
        """
        state = self._state
        seconds = granting.seconds_of(lease, state.config)
        granting.check_run(run)
        if claim_id is not None and claim_id in state.grants:
            return state.grants[claim_id]
        state.begin(now)
        grant = self._unless_paused(granting.carry_out, seconds, state.step, limit, run, worker_id)
        if claim_id is not None:
            state.remember(claim_id, grant)
        return grant

    def propose(self, now: float, limit: int, *, lease: float | None = None, run: int = 1) -> Grant:
        """Return the grant that a claim would get, without making it.

        Only the clock moves on. What is done of it is written down by the caller,
        and comes back as facts, by :meth:`apply` and :meth:`serve`; perhaps those of another claim.

        Raises
        ------
        InvalidArgumentError
            As for :meth:`claim`, whose parameters these are.
        """
        grant = self.propose_within(None, now, limit, lease=lease, run=run)
        # Without a horizon nothing lies beyond it.
        return cast("Grant", grant)

    def propose_within(
        self,
        horizon: Horizon | None,
        now: float,
        limit: int,
        *,
        lease: float | None = None,
        run: int = 1,
    ) -> Grant | None:
        """As :meth:`propose`, knowing some live items only; ``None`` if more are needed.

        Parameters
        ----------
        horizon : tuple, optional
            The place in the order of service, as negated priority, turn and seq, up to which all
            items are known that are ready and were never served. Those beyond it may run.
        now, limit, lease, run
            As for :meth:`propose`.
        """
        state = self._state
        seconds = granting.seconds_of(lease, state.config)
        granting.check_run(run)
        state.pass_time(now)
        return self._unless_paused(granting.propose, seconds, state.step + 1, limit, run, horizon)

    # rule: paused queue
    def _unless_paused(
        self, decide: Callable[..., _GrantT], seconds: float, step: int, *asked: object
    ) -> _GrantT | Grant:
        """Return the grant of a step; of a paused queue one that gets, and ends, nothing."""
        state = self._state
        nothing = Grant(lease=step, lease_expires_at=state.clock + seconds)
        return nothing if state.paused else decide(state, nothing, *asked)

    def apply(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Bring items to the places decided elsewhere; new ones enter.

        Parameters
        ----------
        items : iterable of mapping
            The items as a snapshot has them. The identity and order of a known item stay.
            The line of a new item is opened before, by :meth:`open_line`: with its last item
            it may have been forgotten.
        """
        for plain in items:
            if plain.get("state") in TERMINAL:
                following.end(self._state, plain)
            else:
                following.put(self._state, plain)

    def serve(self, priority: int, fair_key: Hashable, turn: float, *, overdue: bool) -> None:
        """Record a turn served elsewhere; :meth:`point` moves the pointer.

        An unknown line is skipped: :meth:`open_line` brings it with all its turns.
        """
        if self._state.turns.knows(priority, fair_key):
            account = self._state.turns.account(priority, fair_key)
            account.serve(turn, overdue=overdue)
            self._state.line.refresh(account)

    def owe(self, by: str, key: Hashable, debt: Debt) -> None:
        """Note what a key owes, as decided elsewhere."""
        self._state.bounds.paces.learn(by, key, debt)

    def point(self, priority: int, turn: float, seq: int) -> None:
        """Move the pointer of a priority on, as decided elsewhere; never back."""
        self._state.turns.level(priority).advance(turn, seq)

    def open_line(self, priority: int, account: Sequence[Any]) -> None:
        """Open the line of a key as a snapshot has it; a known line stays."""
        if not self._state.turns.knows(priority, account[0]):
            following.open_line(self._state, priority, list(account))

    def settle(self, lease: int, outcomes: Mapping[int, Outcome], now: float) -> Settled:
        """Record what became of items. What the lease no longer holds is lost, and unchanged.

        A lease that ran out still holds its items until a later claim takes them.
        """
        self._state.begin(now)
        return settle(self._state, lease, outcomes)

    def renew(
        self,
        lease: int,
        now: float,
        by: float | None = None,
        seqs: Iterable[int] | None = None,
    ) -> tuple[int, ...]:
        """Extend a lease from now on, and return the named items that it has lost.

        Without ``seqs`` everything that it still holds is renewed, and nothing is called lost.
        """
        seconds = granting.seconds_of(by, self._state.config)
        self._state.begin(now)
        return renew(self._state, lease, seconds, seqs)

    def cancel(self, seqs: Iterable[int], now: float) -> tuple[int, ...]:
        """Take ready and claimed items out for good, and return which. Their holders lose them."""
        self._state.begin(now)
        return cancel(self._state, seqs)

    def redrive(self, seqs: Iterable[int], now: float, *, again: bool = False) -> list[Admitted]:
        """Enqueue dead, expired and cancelled items again, as new items that name the old ones.

        The others are passed over, and so is an item whose successor is known, unless ``again``.
        A new item is available at once, and has no deadline. It may be refused as a duplicate, but
        not because of the item it repeats.
        """
        self._state.begin(now)
        return self._state.redrive(seqs, again=again)

    def expire(self, now: float) -> tuple[int, ...]:
        """Make everything expired whose deadline has passed while it waited, and return which."""
        self._state.begin(now)
        return granting.expire(self._state)

    def purge(self, seqs: Iterable[int]) -> tuple[int, ...]:
        """Forget finished items and refused rows, and return which. Counters stay.

        An item that was enqueued again from one that stays is left: by it that is known to be done.
        """
        self._state.begin()
        return purge(self._state, seqs)

    def pause(self) -> None:
        """Grant nothing from the next claim on. Settling and renewing go on."""
        self._state.begin()
        self._state.paused = True

    def resume(self) -> None:
        """Grant again."""
        self._state.begin()
        self._state.paused = False

    # rule: pause of a key
    def pause_keys(self, keys: PausedKeys) -> None:
        """Start nothing of some keys, and take nothing of them over, up to an instant each.

        From now on no other key is paused. What runs goes on, and a claim ends what it would end.
        """
        self._state.begin()
        self._state.pause_keys(keys)

    def configure(self, config: QueueConfig, now: float | None = None) -> None:
        """Put changed live settings in force for the next step.

        Parameters
        ----------
        config : QueueConfig
            The settings.
        now : float, optional
            The time, at which what keys owe is kept as units. Default: that of the last step.

        Raises
        ------
        InvalidConfigError
            When the configuration changes a setting that is fixed at creation.
        """
        granting.configure(self._state, config, now)

    def state(self, seq: int) -> State | None:
        """Return an item's state; None for refused, forgotten and unknown ones."""
        record = self._state.records.get(seq)
        return None if record is None else record.state

    def item(self, seq: int) -> Record | None:
        """Return a copy of an item as it stands; None for refused, forgotten and unknown ones."""
        record = self._state.records.get(seq)
        return None if record is None else copy(record)

    def last_tag(self, priority: int, fair_key: Hashable) -> float:
        """Return the last tag that a key was given at a priority, 0 where that is forgotten.

        It is that of the key's own line: an item may have got a later one, from its group. It is in
        units of cost, as it is stored, and a turn for a key whose weight is, and was, 1.
        """
        level = self._state.turns.levels.get(priority)
        account = None if level is None else level.accounts.get(fair_key)
        return 0.0 if account is None else account.raw_last

    def counts(self) -> dict[str, int]:
        """Return how many items there are in each state, purged ones too, and how many rows came.

        ``enqueued`` is the sum of all states; ``refused`` are rows that were duplicates.
        """
        names = ("enqueued", "refused", *get_args(State))
        return {name: self._state.tally[name] for name in names}

    def explain(self, seq: int, now: float, *, by_claim: bool = True) -> ItemReason:
        """Say why an item is, or is not, running. Costs a pass over its group and the leases.

        Where keys have bounds it costs a claim; ``by_claim=False`` leaves out what starts before.
        """
        return explain.explain(self._state, seq, now, by_claim=by_claim)

    def next_event_at(self, now: float, *, by_rates: bool = True) -> float | None:
        """Return when time alone could make something claimable; None for never.

        What lacks units costs a pass over all that is ready.
        """
        return explain.next_event_at(self._state, now, by_rates=by_rates)

    def snapshot(self) -> dict[str, Any]:
        """Return everything as plain data, for JSON where the keys and payloads are."""
        return dump(self._state)

    @classmethod
    def restore(cls, config: QueueConfig, snapshot: Mapping[str, Any]) -> Scheduler:
        """Return a scheduler that goes on exactly where a snapshot was taken.

        The configuration may differ from the snapshot's in live settings, as after ``configure``.
        """
        scheduler = cls(config, keep_finished=bool(snapshot["keep_finished"]))
        load(scheduler._state, snapshot)
        return scheduler
