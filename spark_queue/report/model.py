"""Reports: of a queue, of an item, and of what some items share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from spark_queue.flow import Pause
from spark_queue.report.finding import Finding, Thresholds
from spark_queue.report.lines import (
    DepthPoint,
    ErrorGroup,
    FlowPoint,
    HeldGroup,
    ItemLine,
    OperatorStep,
    Overview,
    ReaderLine,
    RetryPoint,
    Tenant,
    WorkerLine,
)
from spark_queue.report.rate_lines import ClockGap, RateLine
from spark_queue.results import Explanation
from spark_queue.wording import duration, plain, plural

if TYPE_CHECKING:
    from spark_queue.log.heads import ClaimSize

#: Seconds that are no time to speak of.
_SOON = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LongestWait:
    """The ready item that has waited longest."""

    seq: int
    reason: str
    """Why it is not running, as :meth:`explain` says it."""
    since: datetime
    """When it was enqueued, or its delay ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StarvingKey:
    """A fair key whose items could run, but that got almost no turn in the window."""

    fair_key: str | None
    items: int
    since: datetime
    """Since when the first of them could run."""
    seq: int
    """That item."""
    turns: int
    """Turns that it got in the window."""
    turns_of_others: int
    """Turns that others got in the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullLimit:
    """A key whose limit kept items back for the whole window."""

    by: str
    """The expression of the limit."""
    key: str
    used: int
    """Items of it in flight."""
    most: int
    """Items of it that may be."""
    items: int
    """Items that wait for room."""
    since: datetime
    """Since when the first of them does."""
    seq: int
    """That item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutrankedPriority:
    """A priority whose items could run, but whose turns all went to higher ones."""

    priority: int
    items: int
    since: datetime
    """Since when the first of them could run."""
    seq: int
    """That item."""
    turns_above: int
    """Turns of higher priorities in the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckItem:
    """An open item that came back again and again, or has one holder for long."""

    seq: int
    worker_id: str | None
    """Who holds it."""
    since: datetime
    """When it was claimed last."""
    given_back: int
    """How often it was given back untouched; 0 below ten times."""
    lease: float | None
    """For how many seconds it was claimed, where it is held for three times that, and longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """The pause, the front and the workers of a queue."""

    paused_at: datetime | None = None
    """Since when claims get nothing."""
    paused_by: str | None = None
    resumed_at: datetime | None = None
    """When they got something again last."""
    has_front: bool = False
    """Whether a front holds the queue: its items are in no log before they are done."""
    running: tuple[int, ...] | None = None
    """The worker processes that live here; ``None`` where this cannot be known."""
    weights: Mapping[str, float]
    """The weights of fair keys that are in force."""
    claim_size: ClaimSize | None = None
    """The length of the newest claim, where it is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemEntry:
    """What an item is."""

    columns: Mapping[str, Any]
    """The user's columns."""
    dedup_key: str | None
    fair_key: str | None
    group_key: str | None
    priority: int | None
    cost: float | None
    max_attempts: int | None
    """The failures after which it is dead; ``None`` for the queue's."""
    enqueued_at: datetime
    available_at: datetime | None
    """Before when it does not run: as it was enqueued, or since its last failure."""
    expires_at: datetime | None
    """Its deadline: its own, or that of the reader, whichever is sooner."""
    origin: int | None
    """The item that was redriven as this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A row of an item's time line."""

    log: str
    step: int
    at: datetime
    state: str
    attempts: int
    losses: int
    deferrals: int
    worker_id: str | None
    until: datetime | None
    """When the lease, or the delay, ends."""
    error: str | None
    origin: int | None
    """The finished item that it repeats."""
    duplicate_of: int | None
    """The item that held its key."""


#: How long before an instant counts as now, by default.
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The queue, the reader and the instant of a report."""

    queue: str
    reader: str
    """The reader's name; empty for the default reader."""
    as_of: datetime
    """The instant that is shown."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data: times as ISO 8601 in UTC, durations as seconds."""
        found: dict[str, Any] = plain(self)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedReport(Heading):
    """Items that share something: the first of them that are open or dead."""

    about: tuple[Tenant | HeldGroup | ErrorGroup | WorkerLine, ...]
    """The lines that its panel has of it: none where it is not among those."""
    items: tuple[ItemLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an item stands, if no other comes. Durations are seconds from the report on."""

    ahead: int
    """Items that may run and come before it; about so many while items that failed come back."""
    held_ahead: int
    """Items that come before it once their group lets them."""
    members_ahead: int
    """Open items before it in its group."""
    least: float | None
    """When a claim comes to it, at the fastest pace of late; None where there is no estimate."""
    most: float | None
    """The same at the slowest; None where nothing was claimed in the newest part of that time."""
    why: str = ""
    """Why there is no estimate."""

    def __str__(self) -> str:
        return f"{self._before()}; {self._when()}"

    def _before(self) -> str:
        said = [f"{self.ahead:,} in line before it" if self.ahead else "next in line"]
        if self.held_ahead:
            said.append(f"{self.held_ahead:,} held by a group")
        if self.members_ahead:
            said.append(f"{plural(self.members_ahead, 'open item')} before it in its group")
        return ", ".join(said)

    def _when(self) -> str:
        if self.least is None:
            return f"no estimate: {self.why}"
        is_soon = self.least < _SOON
        if self.most is None:
            least = (
                "at the next claim or later" if is_soon else f"in {duration(self.least)} or more"
            )
            return f"expected {least}"
        if self.most < _SOON:
            return "expected at the next claim"
        least, most = duration(self.least), duration(self.most)
        if is_soon or least == most:
            return f"expected within {most}"
        return f"expected in {least} to {most}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemReport(Heading):
    """One item: what happened to it, and what it waits for, to the end of the chain."""

    seq: int
    history: tuple[Transition, ...]
    chain: tuple[Explanation, ...]
    """Why it is not running; then the same of the item that is in its way, and so on."""
    text: str
    """The chain in a sentence."""
    entry: ItemEntry | None = None
    """What the item is; ``None`` where there is none."""
    place: Place | None = None
    """Where it stands in line, and when a claim may come to it; ``None`` where it waits for none,
    and of a report of then."""

    def html(self) -> str:
        """Return it as one document of HTML, which needs nothing from elsewhere."""
        return str(_module("page").item_page(self))

    def _repr_html_(self) -> str:
        return str(_module("page").item_fragment(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals(Heading):
    """The vital panels of a queue at an instant, for one of its readers."""

    window: timedelta
    """How long before it counts as now."""
    step: int
    """The newest step of the reader's status log that is counted."""
    paused: bool
    service: ServiceState
    overview: Overview
    retries: tuple[RetryPoint, ...]
    """The window in sixty parts, the oldest first."""
    workers: tuple[WorkerLine, ...]
    """Dead ones that hold items first, then late ones, then ones that lost items."""
    errors: tuple[ErrorGroup, ...]
    """Those of the window first, by how often they are."""
    groups: tuple[HeldGroup, ...]
    """The groups with most waiting items first."""
    starving: tuple[StarvingKey, ...]
    """The fair keys that starve, the longest first."""
    paused_keys: tuple[Pause, ...]
    """The keys that are paused."""
    full_limits: tuple[FullLimit, ...]
    """The keys without room for all of the window, the longest first."""
    rates: tuple[RateLine, ...]
    """The rates of the queue, with the keys that they keep back."""
    clock_gaps: tuple[ClockGap, ...]
    """Where clocks of workers differ by more than a rate's burst takes."""
    claims_apart: float | None
    """Seconds from one claim to the next in the window, on average, where there are rates."""
    outranked: tuple[OutrankedPriority, ...]
    """The priorities that do."""
    stuck: tuple[StuckItem, ...]
    """Items that are held for long, or given back again and again."""
    waits_longest: LongestWait | None

    @property
    def pacing(self) -> tuple[RateLine, ...]:
        """The rates that keep keys back."""
        return tuple(one for one in self.rates if one.keys)

    def findings(self, thresholds: Thresholds | None = None) -> list[Finding]:
        """Return the findings for an operator, the worst first."""
        found: list[Finding] = _module("alarms").ring(self, thresholds)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Vitals):
    """A queue at an instant, as one of its readers sees it."""

    depth: tuple[DepthPoint, ...]
    """Half hours of the last day, the oldest first."""
    flow: tuple[FlowPoint, ...]
    """The window in sixty parts, the oldest first."""
    tenants: tuple[Tenant, ...]
    """Starving ones first, then the slow and the noisy; the idle last."""
    readers: tuple[ReaderLine, ...]
    """In the order in which they were registered."""
    steps: tuple[OperatorStep, ...]
    """The newest first."""
    columns: tuple[str, ...]
    """The user's columns."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data: times as ISO 8601 in UTC, durations as seconds."""
        return {"condition": plain(_module("condition").judge_condition(self)), **plain(self)}

    def html(self) -> str:
        """Return it as one document of HTML, which needs nothing from elsewhere.

        It is what a job leaves behind: ``Path("report.html").write_text(queue.report().html())``.
        """
        return str(_module("page").page(self))

    def _repr_html_(self) -> str:
        return str(_module("page").fragment(self))


def _module(name: str) -> ModuleType:
    # What shows or judges a report knows what it is: asked for when it is to be.
    return import_module(f"spark_queue.report.{name}")
