"""Results of a queue's operations: frozen records, shown well in notebooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spark_queue.config_changes import each_change, undo_lines
from spark_queue.rules.rule_model import Reason
from spark_queue.wording import in_html, plural

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from typing_extensions import Self


#: What a table is to the caller: a frame of Spark, or a table of Arrow.
_FrameT = TypeVar("_FrameT")


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedBatch:
    """A batch that is not new to a queue: nothing was written of it."""

    number: int
    """The batch."""
    last: int
    """The last batch of its source: a new one has a higher number."""
    inserted: int | None = None
    """Rows that became items when it came first. It is ``None``, as the others are, where later
    batches have come since: what it did then, and whether it ever came, is not known."""
    duplicates: int | None = None
    refused: int | None = None

    @property
    def rows(self) -> int | None:
        """How many rows it had when it came first."""
        counts = (self.inserted, self.duplicates, self.refused)
        return None if self.inserted is None else sum(count or 0 for count in counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueResult(Generic[_FrameT]):
    """The result of an enqueue."""

    step: int
    """The step of the item log that it became, or of the last batch that is repeated; 0 for an
    empty frame."""
    inserted: int
    """Rows that became items."""
    duplicates: int
    """Rows that were refused because their key is taken."""
    refused: int = 0
    """Rows that were refused because a reader was full."""
    busy: int = 0
    """Of the duplicates those whose key an item has that has begun."""
    repeated: RepeatedBatch | None = None
    """The earlier result of a batch that is not new: then nothing was written, and the counts
    above are 0."""
    read_outcomes: Callable[[], _FrameT] = field(repr=False, compare=False)
    """Makes the frame of the outcomes."""
    read_told: Callable[[], Sequence[tuple[int, str, int | None, str | None]]] = field(
        repr=False, compare=False
    )
    """Of each row its seq, its outcome, who holds its key, and where that is, where this process
    has decided."""

    @property
    def outcomes(self) -> _FrameT:
        """One row for each row of the frame, read from the log, where it was stored with them.

        They are in the order in which they entered, and have the user's columns, ``_seq``,
        ``outcome``, ``duplicate_of``, the seq that holds the key, and ``holder``: whether the
        holder of a duplicate ``waits``, is ``busy`` or ``over``. An outcome is ``inserted``,
        ``duplicate``, ``refused`` (a reader was full), ``replaces`` or ``follows`` (it entered,
        instead of that item or to run after it), or ``replaced`` (a later row has its key).
        """
        # Made on demand: the rows are in the queue, even if no frame can be made.
        return self.read_outcomes()

    def _repr_html_(self) -> str:
        if self.repeated is not None:
            return f"batch {self.repeated.number} is <b>repeated</b>: nothing was written"
        repeats = plural(self.duplicates, "duplicate")
        return f"<b>step {self.step}</b>: {self.inserted} inserted, {repeats}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """The result of an upgrade of a queue's format."""

    step: int
    """The step of the status log from which the format is in force; 0 where it was before."""
    was: int
    """The format that the queue had."""
    now: int
    """The format that it has."""

    def _repr_html_(self) -> str:
        return f"<b>format {self.now}</b>, was {self.was}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """How much is where in a queue, at one step of it."""

    step: int
    """The step of the status log that was counted."""
    at: datetime
    """When it was counted; of a look back, the instant that it shows."""
    paused: bool
    """Whether claims get nothing."""
    ready: int
    """Items that wait: delayed and blocked ones, too."""
    claimed: int
    """Items in flight."""
    acked: int
    dead: int
    expired: int
    cancelled: int
    redriven: int
    """Dead, expired and cancelled items that were enqueued again since."""
    refused: int
    """Rows that were refused as duplicates."""
    oldest_age: timedelta | None
    """How long the ready item has waited that waits longest: since it was enqueued, or since its
    delay ended, whichever is later. ``None`` where none waits."""
    per_key: DataFrame | pa.Table
    """One row a fair key, by its name, without Spark as a table of Arrow: ``fair_key``, ``ready``,
    ``claimed``, ``acked``, ``dead``, ``expired``, ``cancelled``, ``redriven``, ``refused``,
    ``wait_p50``, ``wait_p95``, ``wait_max`` (seconds from when an item could run first, in its
    time, to its first claim) and ``oldest_age`` (seconds, as above).
    The waits are exact: each is the wait of an item."""

    @property
    def enqueued(self) -> int:
        """Items that are in the queue's tables, in any state."""
        return self.ready + self.claimed + self.acked + self.dead + self.expired + self.cancelled

    def _repr_html_(self) -> str:
        names = ("ready", "claimed", "acked", "dead", "expired", "cancelled", "refused")
        heads = "".join(f"<th>{name}</th>" for name in names)
        cells = "".join(f"<td>{getattr(self, name)}</td>" for name in names)
        note = " (paused)" if self.paused else ""
        return f"<b>step {self.step}{note}</b><table><tr>{heads}</tr><tr>{cells}</tr></table>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far a reader is behind its queue."""

    reader: str
    """Its name; empty for the default reader."""
    items: int
    """Items that it is not done with, those in its hands included."""
    bytes: int
    """What their values take."""
    open_items: int
    """Items in its hands: claimed, and not settled."""
    age: timedelta | None
    """How long the oldest item that waits has waited; ``None`` where none does."""
    steps: int
    """Steps of the item log from the oldest item that it is not done with to the newest."""
    lost: int
    """Items that it was to see, and that were dropped before it was registered."""
    dropped: int
    """Items that were dropped because it was full or too far behind."""

    def _repr_html_(self) -> str:
        name = in_html(self.reader) or "default reader"
        return (
            f"<b>{name}</b>: {plural(self.items, 'item')}, {plural(self.bytes, 'byte')}, "
            f"{plural(self.steps, 'step')} behind; {self.open_items} open, {self.lost} lost, "
            f"{self.dropped} dropped"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemProgress:
    """How far the work on an item is, as its handler said."""

    fraction: float
    """From 0 to 1."""
    note: str | None
    """What the handler said of it."""
    at: datetime
    """When it was written, with a renewal of the lease."""

    def __str__(self) -> str:
        note = "" if self.note is None else f": {self.note}"
        return f"{self.fraction:.0%} done{note}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why an item is not running."""

    seq: int
    """The item."""
    reason: Reason
    """In a word; ``runnable`` where nothing but its turn is in the way."""
    detail: str
    """In a sentence: by whom, and until when."""
    by: int | None = None
    """The item that is in the way, where one is."""
    until: datetime | None = None
    """When that ends by itself, where it does."""
    more: int = 0
    """How many more things are in its way: the reason is the first of them."""
    given_back: int = 0
    """How often it was claimed and given back untouched, where it is not over."""
    progress: ItemProgress | None = None
    """How far the work on it is, while it is leased, where its handler says so."""

    def _repr_html_(self) -> str:
        return f"item {self.seq}: <b>{in_html(self.reason)}</b>, {in_html(self.detail)}"


#: Items that a dry run shows, and their columns besides the user's.
SAMPLES = 5
SAMPLED = ("_seq", "_state", "_attempts", "_error")


#: Why finished items stay that a purge means: a reader is not done with them, or they were enqueued
#: again from an item that stays.
NEEDED, LINKED = "needed", "linked"


class Affected(int):
    """How many items an operator's change is about: a number that says more.

    Attributes
    ----------
    step : int
        The step of the status log that was written, as :meth:`DeltaQueue.undo` takes it; 0 where
        none was: nothing was to be done, or it was an enqueue (a redrive), or a purge.
    states : mapping of str to int
        In which states the items are before the change; of a dry run.
    becomes : mapping of str to int
        What becomes of them: ``cancelled``, ``ready`` again, ``expired``, ``dead``, or ``gone``
        from the queue for good; ``refused`` are items that a redrive leaves as they are, as their
        key is taken, or a reader is full.
    stays : mapping of str to int
        How many of the items that a purge means stay in the queue: by their state, where they are
        ``ready`` or ``claimed``; finished ones as ``needed``, where a reader is not done with them,
        or as ``linked``, where they were enqueued again from an item that stays.
    sample : tuple of dict
        The first of the items by ``_seq``: the user's columns, ``_seq``, ``_state``, ``_attempts``
        and ``_error``; of a dry run.
    """

    step: int
    states: Mapping[str, int]
    becomes: Mapping[str, int]
    stays: Mapping[str, int]
    sample: tuple[Mapping[str, Any], ...]

    def __new__(
        cls,
        count: int,
        *,
        step: int = 0,
        states: Mapping[str, int] | None = None,
        becomes: Mapping[str, int] | None = None,
        stays: Mapping[str, int] | None = None,
        sample: Sequence[Mapping[str, Any]] = (),
    ) -> Self:
        """Return a number of items with facts about them."""
        made = super().__new__(cls, count)
        made.step = step
        made.states, made.becomes = dict(states or {}), dict(becomes or {})
        made.stays = dict(stays or {})
        made.sample = tuple(sample)
        return made

    def _repr_html_(self) -> str:
        was = ", ".join(f"{count} {state}" for state, count in self.states.items())
        rows = "".join(f"<li>{in_html(str(dict(row)))}</li>" for row in self.sample)
        left = ", ".join(f"{count} {why}" for why, count in self.stays.items())
        said = f"{f': {was}' if was else ''}{f'; stay: {left}' if left else ''}"
        items = "item" if self == 1 else "items"
        return f"<b>{int(self)}</b> {items}{said}<ul>{rows}</ul>"


class Reconfigured(int):
    """The step from which other settings are in force: a number that says more.

    Attributes
    ----------
    before, after : mapping
        The settings that were named, as they were before that step, and from it on, as plain data;
        of the weights those of the keys that were named, and of the rules of keys likewise.
    """

    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def __new__(
        cls,
        step: int,
        *,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return a step with the settings that it replaced, and set."""
        made = super().__new__(cls, step)
        made.before, made.after = dict(before or {}), dict(after or {})
        return made

    def _repr_html_(self) -> str:
        lines = (f"<li>{in_html(line)}</li>" for line in self.lines())
        return f"<b>in force from step {int(self)} on</b><ul>{''.join(lines)}</ul>"

    def lines(self) -> list[str]:
        """Return a line for each setting, or number of a rule, that changed."""
        changed = each_change(self.before, self.after)
        return [f"{name}: {before} -> {after}" for name, before, after in changed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """The result of taking a step back."""

    undone: int
    """The step that was taken back."""
    what: str
    """What it was: ``cancel``, ``pause``, ``resume`` or ``configure``."""
    step: int = 0
    """The step of the status log by which it was; 0 where none was written."""
    enqueue_step: int = 0
    """The step of the item log by which new items came; 0 where none did."""
    restored: int = 0
    """Items that are back."""
    taken: int = 0
    """Items that are not, as another one has their key by now."""
    holders: Sequence[tuple[int, int]] = ()
    """Of these, up to a thousand: the item, and who has its key."""
    left: int = 0
    """Items that came back before, or are gone from the queue."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that are again what they were, as plain data; ``paused`` among them."""
    before: Mapping[str, Any] = field(default_factory=dict)
    """The same settings until then."""

    def _repr_html_(self) -> str:
        back = plural(self.restored, "item")
        said = f"{back} back, {self.taken} whose key is taken, {self.left} left"
        if self.what != "cancel":
            said = ", ".join(undo_lines(self.before, self.settings))
        return (
            f"step {self.undone} ({self.what}): {in_html(said or 'nothing is left to take back')}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """The result of maintenance."""

    expired: int
    """Items whose expiry was logged."""
    dead: int
    """Items that became dead letters: their last lease ran out."""
    replaced: int = 0
    """Items that were cancelled, as others of their key had replaced them."""
    checkpoint: int
    """The step of the newest checkpoint."""
    dropped_generations: int
    """Generations that were removed, all of whose items had finished long enough ago."""
    dropped_items: int
    """Items in them."""
    merged_files: int = 0
    """Files whose rows are in fewer ones now, as far as that was done without Spark."""
    removed_files: int = 0
    """Replaced files that are needed no more, removed without Spark."""
    seconds: float

    def _repr_html_(self) -> str:
        return (
            f"{self.expired} expired, {self.dead} dead, {self.replaced} replaced, "
            f"checkpoint at step {self.checkpoint}, {plural(self.dropped_items, 'item')} in "
            f"{plural(self.dropped_generations, 'generation')} dropped, "
            f"{self.seconds:.1f} s"
        )


class Liveness(str, Enum):
    """Whether a worker lives."""

    ALIVE = "alive"
    """Its process runs, or its lease is in force."""
    LATE = "late"
    """Its lease ran out, and its process may still run."""
    GONE = "gone"
    """Its process has ended, and left items."""
    ENDED = "ended"
    """Its process has ended, and left none."""
