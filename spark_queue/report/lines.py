"""Frozen rows of a report's panels, a class for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from datetime import datetime
from typing import Any

from spark_queue.results import ItemProgress, Liveness


def _fact(says: str, *, waits: str = "") -> Any:
    """Declare a count by the words that every face has for it.

    Parameters
    ----------
    waits : str
        Why its items are not claimed, as metrics call that; empty for a count of no ready items.
    """
    return field(metadata={"says": says, "waits": waits})


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The items by state, their speed, and when the work will be done. Durations are seconds."""

    runnable: int = _fact("runnable", waits="runnable")
    """Ready items that nothing but their turn keeps from a claim."""
    judges_each: bool = False
    """Whether items count as runnable behind others that take the last room of a limit, or units of
    a rate: more than 50,000 are open, or the instant is past."""
    delayed: int = _fact("delayed", waits="delayed")
    """Ready items whose time has not come: delayed at the start, or by a retry."""
    held_by_group: int = _fact("held by a group", waits="held by group")
    """Ready items that one of their group is in the way of."""
    over_a_key_limit: int = _fact("over a key's limit", waits="key limit")
    """Ready items of a key that has its limit of items in flight."""
    keys_at_a_limit: int
    """How many keys that are."""
    over_a_rate: int = _fact("over a rate", waits="over a rate")
    """Ready items of a key, or of a queue, whose rate lacks their units."""
    of_paused_keys: int = _fact("of paused keys", waits="key paused")
    """Ready items of a key that is paused."""
    over_a_limit: int = _fact("over a limit", waits="over a limit")
    """Ready items that wait as the queue has its limit of items in flight."""
    paused_items: int = _fact("paused", waits="paused")
    """Ready items of a paused queue, even if something else is in their way."""
    past_their_time: int = _fact("past their time", waits="past their time")
    """Ready items that the next claim will log as expired."""
    claimed: int = _fact("claimed")
    """Items in flight, those with a lease that ran out included."""
    late: int
    """Items of those whose lease ran out."""
    dead: int = _fact("dead")
    dead_in_window: int
    """Dead items that died in the window."""
    dead_since: datetime | None
    """When the first of these did."""
    acked: int = _fact("acked")
    expired: int = _fact("expired")
    cancelled: int = _fact("cancelled")
    redriven: int = _fact("redriven")
    """Items that died, expired or were cancelled, and were enqueued again since: they are none of
    the three above."""
    refused: int = _fact("refused")
    """Rows that were refused as duplicates, ever."""
    oldest_age: float | None
    """How long the ready item that waits longest has: since it was enqueued, or its delay ended."""
    runnable_since: datetime | None
    """Since when the first of the runnable items could run; None where there is none."""
    last_claim_at: datetime | None
    """When items were claimed last, as far as the tables still tell."""
    last_ack_at: datetime | None
    """When an item was acked last, as far as the tables still tell."""
    enqueued_in_window: int
    """Items that entered in the window; what an undo brought back did not."""
    done_in_window: int
    """Items acked in the window."""
    seconds: float | None
    """The part of the window since the first item, in which all of its items came."""
    enqueued_per_second: float | None
    """In that time; None where it is no time."""
    done_per_second: float | None
    """As above, of items acked."""
    enqueued_per_second_now: float | None
    """In the last five minutes, or since the first item."""
    done_per_second_now: float | None
    """As above, of items acked."""
    trend: str
    """What open items do, by the last ten minutes: ``falls``, ``rises``, ``stays``, or ``done``
    where none is open."""
    time_left: float | None
    """Seconds until nothing is open, if items go on as since the last minutes had most of them;
    None where they do not fall."""
    time_left_least: float | None
    """The same by the fastest part of that time."""
    time_left_most: float | None
    """By the slowest; None where nothing went in a part of it."""

    @property
    def ready(self) -> int:
        """Items that wait, for any reason."""
        return sum(self.waiting().values())

    def counts(self) -> dict[str, int]:
        """Return the items by what they are called, in the order in which they are shown."""
        return {one.metadata["says"]: getattr(self, one.name) for one in _facts()}

    def waiting(self) -> dict[str, int]:
        """Return the ready items by why they are not claimed."""
        reasons = {one.name: one.metadata["waits"] for one in _facts()}
        return {why: getattr(self, name) for name, why in reasons.items() if why}

    @property
    def is_unused(self) -> bool:
        """Whether no item has ever entered, as far as the tables still say."""
        ended = self.acked + self.dead + self.expired + self.cancelled + self.redriven
        return not self.ready + self.claimed + ended + self.refused


def _facts() -> list[Field[Any]]:
    return [one for one in fields(Overview) if one.metadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthPoint:
    """How many items were open at an instant."""

    at: datetime
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPoint:
    """A part of a stretch of time, and how many items were open at its end."""

    at: datetime
    entered: int
    done: int
    failed: int
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A fair key. Durations are seconds."""

    fair_key: str | None
    ready: int
    claimed: int
    most: int | None
    """How many may be claimed, by a limit of the fair key; None for any number."""
    rate: str | None
    """How many may start in a time, by a rate of the fair key, as it is typed: ``100/60s``."""
    next_at: datetime | None
    """When the next may start, where it lacks units of that rate."""
    dead: int
    """Without items that were enqueued again."""
    turns: int
    """Items of it that were claimed in the window."""
    share: float | None
    """What part of all turns of the window that is; None where there were none."""
    due: float | None
    """The part that its weight entitles it to, among the keys that are not idle; None where it is
    idle."""
    wait_p50: float | None
    """From when an item could run first, in its time, to its first claim, of items first claimed in
    the window: half waited no longer."""
    wait_p95: float | None
    wait_max: float | None
    work_p50: float | None
    """From claim to settle, of items acked or failed in the window: half took no longer."""
    work_p95: float | None
    oldest_age: float | None
    """How long its ready item that waits longest has, as of :class:`Overview`."""
    failures: int
    """In the window."""
    is_paused: bool
    """Whether the key is paused."""
    starving: bool
    """Whether it waited for the whole window, and got no turn or hardly any while others did."""
    idle: bool
    """Whether nothing of it is open, and nothing happened to it in the window."""
    keys: int
    """How many keys there are in all; a report names the first hundred."""
    idle_keys: int
    """How many of these are idle."""
    idle_dead: int
    """How many dead letters the idle ones have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroup:
    """Failures with the same words, except for ids, paths and numbers."""

    wording: str
    failures: int
    """How often, ever."""
    in_window: int
    items: int
    """How many items it has met."""
    attempts: int
    """The most failed attempts that one of them had."""
    dead: int
    """Items that died of it, and were not redriven since."""
    dead_in_window: int
    """Those of them that died in the window."""
    first_at: datetime
    last_at: datetime
    samples: tuple[int, ...]
    """Some of the items."""
    sample: str
    """One of the errors, as it was."""
    redrive: str
    """The command that enqueues its dead items again; empty where there are none, or where nothing
    in its wording tells them from others."""
    wordings: int
    """How many there are in all; a report names the first hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPoint:
    """A sixtieth of the window."""

    at: datetime
    """Its begin."""
    failures: int
    dead: int
    """Failures that were the last of an item."""
    claimed: int
    claimed_again: int
    """Claimed items that had failed, or were lost, before."""
    replaced: int
    """Items that others of their key replaced before they began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGroup:
    """An item that others of its group wait for."""

    group_key: str
    head: int
    """Its seq."""
    why: str
    """Why it is not done: a reason as ``explain`` has them; ``leased`` while it is worked on."""
    since: datetime
    """Since when it is where it is."""
    until: datetime | None
    """When its lease, or its delay, ends."""
    behind: int
    """How many items wait for it."""
    oldest_age: float
    """How many seconds the one has waited that waits longest."""
    attempts: int
    losses: int
    worker_id: str | None
    liveness: Liveness | None
    """Whether the worker lives that holds it; None where nobody does."""
    error: str | None
    """The error of its last failure; a loss is none."""
    heads: int
    """How many such items there are in all; a report names the first hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLine:
    """A worker that holds items, or claimed or lost some in the window."""

    worker_id: str | None
    liveness: Liveness | None
    """Whether it lives; None where it holds nothing and its process cannot be looked up."""
    items: int
    """Items that it holds."""
    leases: int
    """Claims that they are of."""
    since: datetime | None
    """When the oldest of those was made."""
    until: datetime | None
    """When the first of those ends."""
    late: int
    """Items that it holds by a lease that ran out."""
    lost: int
    """Items that were taken from it in the window, or given back in its name."""
    claimed: int
    """Items that it got in the window."""
    last_claim_at: datetime | None
    """When it claimed last, in the window."""
    acked: int
    """Items that it acked in the window."""
    work_p50: float | None
    """Seconds from claim to settle, of items that it acked or failed in the window: half took no
    longer."""
    work_p95: float | None
    workers: int
    """How many there are in all; a report names the first hundred."""
    progress: ItemProgress | None = None
    """What its handler said last of how far it is, of the first hundred items in flight."""
    progress_of: int | None = None
    """The item of which it said that."""

    @property
    def said(self) -> str:
        """What it said last, and of which item."""
        return "" if self.progress is None else f"item {self.progress_of}: {self.progress}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderLine:
    """How far a reader is behind."""

    reader: str
    """Its name; empty for the default reader."""
    streams: bool
    """Whether it is a stream, which claims nothing."""
    items: int
    """Items that it is not done with."""
    open_items: int
    """Items in its hands."""
    oldest_age: float | None
    """How many seconds the item has waited that waits longest; a delay does not count."""
    steps: int
    """Steps of the item log from the oldest item that it is not done with to the newest."""
    lost: int
    """Items that it was to see, and that were dropped before it was registered."""
    last_step_at: datetime | None
    """When anything was last done for it."""
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStep:
    """The action of an operator."""

    at: datetime
    log: str
    """``queue`` or ``status``: whose step it is."""
    step: int
    action: str
    """created, paused, resumed, configured, cancelled, redriven, undone, purged, or dropped after
    its retention."""
    items: int
    """How many items it was about; 0 for settings."""
    detail: str
    """What changed of the settings; of an undo, which step was taken back; whether its items are
    gone since."""
    who: str | None
    """Who did it, where that is known; by which command, where it was one."""
    undone: int | None = None
    """The step that was taken back."""
    undo: str = ""
    """The command that takes it back; empty where that cannot be, or was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemLine:
    """An item in a list."""

    seq: int
    state: str
    why: str
    """Why it is not running, a reason as ``explain`` has them; its state if it ended."""
    since: datetime
    """Since when it is where it is."""
    attempts: int
    losses: int
    deferrals: int
    dedup_key: str | None
    fair_key: str | None
    group_key: str | None
    worker_id: str | None
    liveness: Liveness | None
    """Whether the worker lives that holds it; None where nobody does."""
    error: str | None
    """Its last error."""
    progress: ItemProgress | None = None
    """How far the work on it is, while it is leased, where its handler says so."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """The first of the user's columns, but for its fair key and its group."""
