"""Heads of steps, and the rows of a step in the columns of its log."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import pyarrow as pa

from spark_queue.log.schema import HEAD, META_LANE
from spark_queue.wording import lasting, plural

#: Where an order of service stands at one priority: the highest (turn, seq) handed out.
Pointer = tuple[float, int]

_Head = TypeVar("_Head", "QueueHead", "StatusHead")


#: Why a claim of ``process`` is as long as it is.
SizeReason = Literal["first", "measured", "share", "bytes", "limit"]

_SIZE_REASONS: Mapping[SizeReason, str] = {
    "first": "the first claim of its handler, to learn how many take {time}",
    "measured": "as many as take {time}",
    "share": "a share of what waits, as others hold claims",
    "bytes": "more have too many bytes",
    "limit": "no claim of its handler has more",
}


class UnknownHeadError(ValueError):
    """Raised when a head is not what this release writes: it is of a newer one, or damaged."""


def new_token() -> str:
    """Return a token that tells this writer's attempt at a step from any other."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Who keeps all others from writing, and until when."""

    by: str = ""
    """Host, process and a token; empty where nobody does."""
    until: str = ""
    """As ISO 8601; by then it has to be renewed, where other processes can write at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSize:
    """How many items a claim of ``process`` took, and why so many."""

    step: int = 0
    """The step of the status log that granted it."""
    items: int = 0
    """How many it got."""
    most: int
    """How many it could get at most: fewer may have been there."""
    why: SizeReason
    """``first``, ``measured``, ``share``, ``bytes`` or ``limit``."""
    seconds: float
    """The time that its items were to take together."""

    def __str__(self) -> str:
        why = _SIZE_REASONS[self.why].format(time=lasting(self.seconds))
        return f"{self.items:,} of at most {plural(self.most, 'item')}: {why}"


class Head(Protocol):
    """The state of a log after a step: a dataclass, written as the text of a row of the step."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def step(self) -> int:
        """The number of the step."""

    @property
    def token(self) -> str:
        """What tells this writer's attempt at the step from any other."""

    @property
    def at(self) -> str:
        """When it was committed, by its writer's clock, as ISO 8601."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """One reader of a queue, as the item log knows it."""

    name: str = ""
    """Its name; the default reader has none."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """What differs from the defaults of a :class:`ReaderConfig`, as plain data."""
    at: str = ""
    """When it was registered, as ISO 8601."""
    since_step: int = 0
    """It sees the items of later steps only."""
    since_items: int = 0
    """How many items had been accepted up to there."""
    pointers: Mapping[int, Pointer] = field(default_factory=dict)
    """Where its order of service begins."""
    lost: int = 0
    """Items that it was to see, and that were dropped before it was registered."""
    streams: bool = False
    """Whether it is read as a stream, which says how far it has come instead of claiming."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The last batch of a source, and what it did."""

    number: int
    at: int = 0
    """When it came, in seconds of UTC; 0 where an older format did not say."""
    step: int | None = None
    """The step that it became, 0 without rows; ``None`` where an older format did not say."""
    inserted: int = 0
    duplicates: int = 0
    refused: int = 0

    @classmethod
    def of(cls, plain: int | list[Any]) -> Mark:
        """Read a mark as a head has it: before format 5 its number alone."""
        return cls(plain) if isinstance(plain, int) else cls(*plain)

    def plain(self) -> int | list[int | None]:
        """Return the mark as a head has it."""
        if not self.at:
            return self.number
        return [self.number, self.at, self.step, self.inserted, self.duplicates, self.refused]

    def since(self, at: int) -> Mark:
        """Return the mark with a time, if it has none."""
        return self if self.at else replace(self, at=at)


def names_of(readers: Mapping[int, Registered]) -> list[str]:
    """Return the names of readers; the default one has none."""
    return [reader.name for reader in readers.values() if reader.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHead:
    """The state of the item log after a step."""

    step: int = 0
    token: str = ""
    at: str = ""
    """When the step was committed, by its writer's clock, as ISO 8601."""
    last_seq: int = 0
    """The highest seq given to a row, refused ones included."""
    items: int = 0
    """Items ever accepted."""
    refused: int = 0
    """Rows ever refused as duplicates."""
    gen: int = 0
    """The generation that new items enter."""
    gen_since: str | None = None
    """When the first of its items entered it."""
    status_step: int = 0
    """The step of the status log that this step read."""
    tops: Mapping[int, float] = field(default_factory=dict)
    """Per priority, the highest tag given to an item."""
    forgotten: int = 0
    """Items that left the tables with their generation."""
    streams: Mapping[str, Mark] = field(default_factory=dict)
    """Sources whose batches are enqueued here, by the ids of queries or by names."""
    readers: Mapping[int, Registered] = field(default_factory=lambda: {0: Registered()})
    """The readers, by the number that each keeps under any name."""
    last_reader: int = 0
    """The highest number ever given to a reader."""
    floor_step: int = 0
    """Items of steps up to this one may be gone: a new reader starts behind it."""
    floor_items: int = 0
    """How many items had been accepted up to there."""
    hold: Hold = field(default_factory=Hold)
    """The front that holds the queue, if one does."""
    chain_step: int = 0
    """The last step at which an item entered that replaces or follows another; 0 for none."""

    @property
    def has_chains(self) -> bool:
        """Whether items ever replaced each other."""
        return self.chain_step > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Where the fold of the status log starts.

    The ``open`` rows of ``step`` hold every item of ``queue_step`` or before that the pointers had
    passed or that was touched, and that still matters; everything else is found by its tag.
    """

    step: int = 0
    queue_step: int = 0
    pointers: Mapping[int, Pointer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusHead:
    """The state of the status log after a step."""

    step: int = 0
    token: str = ""
    at: str = ""
    """When the step was committed, by its writer's clock, as ISO 8601."""
    config_step: int = 0
    """The step whose configuration row is in force."""
    pointers: Mapping[int, Pointer] = field(default_factory=dict)
    """Per priority, how far the order of service has come."""
    claimed: int = 0
    """Items in flight, those with a run-out lease included."""
    finished: Mapping[str, int] = field(default_factory=dict)
    """Items per terminal state; under ``gone`` those that have left the queue since."""
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    log_rows: int = 0
    """Item rows written since the checkpoint: the length of the fold."""
    width: float = 0.0
    """How far above the pointer the last claim had to look."""
    hold: Hold = field(default_factory=Hold)
    """The front that holds the queue, if one does."""
    looked: int = 0
    """The step of the item log to which a claim has looked, where items replace each other."""
    claim_size: ClaimSize | None = None
    """The length of the newest claim, where it went by a target time."""

    def advanced(self, pointers: Mapping[int, Pointer]) -> dict[int, Pointer]:
        """Return the pointers after more turns were handed out; a pointer never goes back."""
        merged = dict(self.pointers)
        for priority, pointer in pointers.items():
            merged[priority] = max(merged.get(priority, pointer), pointer)
        return merged

    def finishing(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Return the totals per terminal state after more items finished."""
        totals = dict(self.finished)
        for state, count in counts.items():
            totals[state] = totals.get(state, 0) + count
        return totals


def to_json(head: Any) -> str:
    """Write a head as the text of its row; what an older format lacks only where it is used."""
    return json.dumps(head, separators=(",", ":"), default=_plain)


#: What came with format 6.
_LATER = frozenset({"chain_step", "looked", "claim_size"})


def _plain(part: Any) -> Any:
    if isinstance(part, Mark):
        return part.plain()
    # As ``asdict``, which copies all that is in it, for each step.
    return {
        one.name: value
        for one in fields(part)
        if (value := getattr(part, one.name)) or one.name not in _LATER
    }


def queue_head(text: str) -> QueueHead:
    """Read the head row of an item step.

    Raises
    ------
    UnknownHeadError
        When it has more in it than is known, or less.
    """
    return _read(text, _queue_head)


def status_head(text: str) -> StatusHead:
    """Read the head row of a status step; the errors are those of :func:`queue_head`."""
    return _read(text, _status_head)


def _read(text: str, head_of: Callable[[dict[str, Any]], _Head]) -> _Head:
    try:
        return head_of(json.loads(text))
    except (TypeError, LookupError, ValueError) as exc:
        raise UnknownHeadError(str(exc)) from exc


def _queue_head(plain: dict[str, Any]) -> QueueHead:
    tops = {int(priority): float(tag) for priority, tag in plain.pop("tops").items()}
    readers = {
        int(number): Registered(**facts | {"pointers": _pointers(facts["pointers"])})
        for number, facts in plain.pop("readers").items()
    }
    hold = Hold(**plain.pop("hold"))
    streams = {source: Mark.of(mark) for source, mark in plain.pop("streams").items()}
    return QueueHead(**plain, tops=tops, readers=readers, hold=hold, streams=streams)


def _status_head(plain: dict[str, Any]) -> StatusHead:
    checkpoint = plain.pop("checkpoint")
    hold, size = Hold(**plain.pop("hold")), plain.pop("claim_size", None)
    return StatusHead(
        **{**plain, "pointers": _pointers(plain["pointers"])},
        hold=hold,
        claim_size=None if size is None else ClaimSize(**size),
        checkpoint=Checkpoint(
            **{**checkpoint, "pointers": _pointers(checkpoint["pointers"])},
        ),
    )


def following(head: _Head, **changes: Any) -> _Head:
    """Return the head of the next step, with a token of its own."""
    return replace(head, step=head.step + 1, token=new_token(), **changes)


def _pointers(plain: Mapping[str, list[Any]]) -> dict[int, Pointer]:
    return {int(priority): (float(turn), int(seq)) for priority, (turn, seq) in plain.items()}


def step_rows(schema: pa.Schema, head: Head, rows: pa.Table | None) -> pa.Table:
    """Return all rows of a step, that of its head among them, in the columns of a log."""
    whole = pa.concat_tables(step_tables(schema, head, rows), promote_options="default")
    return table_of(schema, whole.num_rows, columns_of(whole))


def step_tables(schema: pa.Schema, head: Head, rows: pa.Table | None) -> list[pa.Table]:
    """Return the same, the row of the head as a table of its own, which is the last one.

    Each has the columns in which it has values.
    """
    line = {"_gen": META_LANE, "_step": head.step, "_kind": HEAD, "_body": to_json(head)}
    last = pa.Table.from_pylist([line], pa.schema([schema.field(name) for name in line]))
    if rows is None:
        return [last]
    columns = columns_of(rows)
    columns["_step"] = pa.repeat(pa.scalar(head.step, pa.int64()), rows.num_rows)
    return [_known_of(schema, columns), last]


def _known_of(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.Table:
    """Return the columns of a schema that have values, with its types."""
    names = {*schema.names}.intersection(columns)
    # Rows that are none keep all.
    known = {n: v for n, v in columns.items() if n in names and v.null_count < max(len(v), 1)}
    kinds = pa.schema([schema.field(name) for name in known])
    return pa.table(list(map(_of_type, known.values(), kinds.types)), schema=kinds)


def columns_of(rows: pa.Table) -> dict[str, Any]:
    """Return the columns of rows by their names."""
    return dict(zip(rows.column_names, rows.columns, strict=True))


def table_of(schema: pa.Schema, count: int, columns: Mapping[str, Any]) -> pa.Table:
    """Return columns in the order and types of a schema, with nulls for those that are missing."""
    return pa.table(
        [
            _of_type(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(count, field.type)
            for field in schema
        ],
        schema=schema,
    )


def _of_type(values: Any, kind: pa.DataType) -> Any:
    # To have Arrow find that there is nothing to do costs more than the question.
    return values if values.type == kind else values.cast(kind)
