"""The data model of a scheduler: what goes in and what it answers, plain and frozen."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from spark_queue.checks import LARGEST, optional, require_count
from spark_queue.errors import InvalidArgumentError
from spark_queue.rules.fairness import is_passed, share
from spark_queue.rules.places import Holding, Place, State, is_busy

if TYPE_CHECKING:
    from spark_queue.rules.fairness import Account
    from spark_queue.rules.pacing import Debt, UnitsAsked


Reason = Literal[
    "runnable",
    "delayed",
    "follows",
    "held by group",
    "key limit",
    "key rate",
    "rate",
    "limit",
    "paused",
    "key paused",
    "leased",
    "expired",
    "lease lost",
    "replaced",
    "finished",
    "duplicate",
    "refused",
    "unknown",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """An item to enqueue, its keys already evaluated.

    Raises
    ------
    InvalidArgumentError
        When the cost is not a number above 0, or the limit no whole number of at least 1.
    """

    payload: object = None
    """What the item is about; the scheduler only carries it."""
    dedup_key: Hashable = None
    """Equal keys are duplicates. None never is one."""
    fair_key: Hashable = None
    """Keys are served in rounds. None is a key like any other."""
    group_key: Hashable = None
    """Items of a group run in order. None is no group."""
    flow_keys: tuple[Hashable, ...] = ()
    """The bounded keys that are neither the fair key nor the group key, in their order."""
    units: tuple[float, ...] = ()
    """The units, by each expression of units in order; 1 each where none is named."""
    priority: int = 0
    """A higher number is served first."""
    cost: float = 1.0
    """How many turns of its key the item takes."""
    available_at: float | None = None
    """Not claimed before; None: at once."""
    expires_at: float | None = None
    """Not claimed from then on; None: never expires."""
    max_attempts: int | None = None
    """Dead after so many failures; None: after as many as the queue allows."""
    tag: float | None = None
    """The place that it had before, as it was stored; it keeps that where no group forbids it."""

    def __post_init__(self) -> None:
        if not 0 < self.cost <= LARGEST:
            raise InvalidArgumentError(f"cost is {self.cost!r}: it must be a number above 0")
        optional(require_count, "max_attempts", self.max_attempts)

    @property
    def keys(self) -> tuple[Hashable, ...]:
        """Its keys, in the places of ``key_texts``."""
        return (self.fair_key, self.group_key, *self.flow_keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The outcome of one enqueued row."""

    seq: int
    """The row's sequence number. Refused rows have one, too."""
    duplicate_of: int | None = None
    """The holder of the key, when the row was refused."""
    holder: Holding | None = None
    """Where that is; None for a row that a later one of its step replaces."""
    origin: int | None = None
    """The finished item that a redrive enqueued again."""
    replaces: int | None = None
    """The item of the key that the row replaces."""
    follows: int | None = None
    """The item of the key that has begun: the row waits until it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """One item of a grant."""

    seq: int
    """The item."""
    payload: object
    """What it is about."""
    fair_key: Hashable
    """The key whose turn it took."""
    group_key: Hashable
    """The group whose slot it holds."""
    priority: int
    """The priority it was served at."""
    turn: float
    """The turn it was served at."""
    attempts: int
    """Failed attempts before this one."""
    losses: int
    """Leases of it that ran out, including the lease that this grant supersedes."""
    overdue: bool = False
    """Whether it took a turn that its key gets for what the order has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The items of a claim, in order of service."""

    lease: int
    """The step that granted the lease: its name."""
    items: tuple[Leased, ...] = ()
    """The items, in order of service."""
    lease_expires_at: float
    """When the lease runs out."""
    expired: tuple[int, ...] = ()
    """Items whose deadline had passed; the same step made them expired."""
    dead: tuple[int, ...] = ()
    """Items that lost their last lease; the same step made them dead."""
    replaced: tuple[tuple[int, int], ...] = ()
    """Items that another one of their key has replaced, each with that; they were cancelled."""
    debts: tuple[tuple[str, Hashable, Debt], ...] = ()
    """What the keys owe that the claim charged: what their rate is by, the key, and the debt."""
    next_at: float | None = None
    """When the first item may start that a rate kept back."""
    in_doubt: Mapping[tuple[int, Hashable], float] = field(default_factory=dict, compare=False)
    """Where some items are not known: the lines that go by seq, by priority and key, and up to
    which seq all of each must be known; infinity for all."""


@dataclass(frozen=True, slots=True)
class Ack:
    """The item is done."""


@dataclass(frozen=True, slots=True)
class Nack:
    """An attempt failed: the item waits for its retry, or is dead after the last one."""

    error: str | None = None
    """What went wrong."""
    after: float | None = None
    """Seconds until the retry; None: as the policy of retries says."""


@dataclass(frozen=True, slots=True)
class Defer:
    """The item waits for a while, and is charged no attempt."""

    after: float
    """Seconds that it waits."""
    error: str | None = None
    """Why."""


@dataclass(frozen=True, slots=True)
class Release:
    """The item is given back, at its place and without a charge."""

    is_begun: bool = True
    """Whether its holder may have begun it. If not, its units come back to its keys."""


@dataclass(frozen=True, slots=True)
class Dead:
    """The item is dead at once, without a retry."""

    error: str | None = None
    """What went wrong."""


Outcome = Ack | Nack | Defer | Release | Dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The result of a settle."""

    lost: tuple[int, ...] = ()
    """Items that the lease no longer holds; nothing changed for them."""
    dead: tuple[int, ...] = ()
    """Items that the step made dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullKey:
    """A key of which no more items may be in flight."""

    by: str
    """The expression of its limit."""
    key: Hashable
    """Its text."""
    used: int
    """Items of it in flight."""
    most: int
    """Items of it that may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemReason:
    """Why an item is, or is not, running."""

    reason: Reason
    """The first thing in its way; ``runnable`` when a claim could take it now."""
    by: int | None = None
    """The item in the way: of its key, of its group, or the first in flight of a full key."""
    until: float | None = None
    """When time alone removes the obstacle."""
    state: State | None = None
    """The item's state, where it is known."""
    full: FullKey | None = None
    """The key whose limit has no room."""
    short: UnitsAsked | None = None
    """The key whose rate lacks units, and how many are needed."""
    more: int = 0
    """How many more things are in its way."""


@dataclass(slots=True, kw_only=True, eq=False)
class Record:
    """An item as it stands. Its place follows the scheduler's clock, its state only its steps."""

    seq: int
    new: NewItem
    priority: int
    account: Account
    raw_tag: float
    enqueued_at: float
    available_at: float | None
    origin: int | None = None
    chain: int | None = None
    """The first of the items that replace each other, for those after it."""
    chain_at: float | None = None
    """When the first of those came that wait with it."""
    follows: int | None = None
    """The item of its key that has begun, until which is over it is kept out of the lines."""
    replaced_by: int | None = None
    """The newest item of its key, where the next claim ends this one."""
    state: State = "ready"
    place: Place | None = None
    attempts: int = 0
    losses: int = 0
    deferrals: int = 0
    lease: int | None = None
    lease_expires_at: float | None = None
    freed_at: float | None = None
    """When its lease may be taken over."""
    worker_id: str = ""
    finished_at: float | None = None
    error: str | None = None
    limited: tuple[tuple[int, Hashable], ...] = ()
    """Its keys that bound the items in flight."""
    kept_until: float = -math.inf
    """It is out of the lines until then, whatever it waits for besides; infinity for an open end.
    :meth:`SchedulerState.keep` sets it."""
    asked: tuple[UnitsAsked, ...] = ()
    """The units that it takes of keys."""

    @property
    def tag(self) -> float:
        """The item's tag, on the scale of its key's present weight; at the end, its last one."""
        if self.place == "done":
            return self.raw_tag
        return self.account.tag(self.raw_tag)

    @property
    def increment(self) -> float:
        """How far the item moves its key: cost / weight, rounded so that sums of it are exact."""
        return share(self.new.cost / self.account.weight)

    @property
    def due_at(self) -> float:
        """When it may be claimed, as far as that is a matter of time."""
        if self.follows is not None:
            return math.inf
        return max(-math.inf if self.available_at is None else self.available_at, self.kept_until)

    @property
    def passed(self) -> bool:
        """Whether the pointer of its priority has passed the item."""
        level = self.account.level
        return is_passed(self.tag, self.seq, (level.turn, level.seq))

    @property
    def is_replaced(self) -> bool:
        """Whether it was ended as another one of its key has replaced it."""
        return self.state == "cancelled" and (self.error or "").startswith("replaced by ")

    @property
    def is_busy(self) -> bool:
        """Whether it has begun: no item of its key replaces it."""
        return is_busy(self.state, self.attempts, self.losses, self.deferrals)

    @property
    def expires_at(self) -> float | None:
        """When the item expires."""
        return self.new.expires_at

    # rule: place at an instant
    def place_at(self, now: float) -> Place:
        """Return where the item is at an instant, while it is live."""
        is_kept = self.follows is not None or self.kept_until > now
        if self.state != "claimed":
            is_due = self.available_at is None or self.available_at <= now
            return "due" if is_due and not is_kept else "delayed"
        if self.freed_at is None or self.freed_at > now:
            return "held"
        return "kept" if is_kept else "lost"

    def has_expired(self, now: float) -> bool:
        """Whether the item's deadline has passed."""
        return self.expires_at is not None and self.expires_at <= now
