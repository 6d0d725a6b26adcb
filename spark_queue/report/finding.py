"""Findings of a checkup, and the thresholds that they go by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Literal, get_args

from spark_queue.checks import optional, require_count, require_duration
from spark_queue.errors import InvalidArgumentError
from spark_queue.wording import in_html, instant, plural, shorten

#: Thresholds that may be zero, and thresholds that are ``None`` by default.
_FROM_ZERO = ("lease_overrun", "clock_skew")
_OPTIONAL = ("oldest", "retention")


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Thresholds of the checks; the defaults suit queues with workers.

    Raises
    ------
    InvalidArgumentError
        When a value is out of its range.
    """

    lease_overrun: timedelta = timedelta(minutes=1)
    """How long a lease may be over before another claim should have taken its item."""
    oldest: timedelta | None = None
    """How long an item may wait whose time has come, for any reason; ``None`` (default): as long
    as it likes."""
    idle: timedelta = timedelta(minutes=10)
    """How long no worker may claim while items could run."""
    window: timedelta = timedelta(hours=1)
    """How far failures and dead letters are looked back at, and how long a tenant may get no turn
    while others do, or a group wait for one of its own."""
    failures: int = 20
    """Failures within the window from which on they are a storm, if successes are no more."""
    dead: int = 1
    """Dead letters within the window from which on they grow."""
    checkpoint_rows: int = 100_000
    """Rows of the status log that may follow its last checkpoint: a new process reads them."""
    small_files: int = 100
    """By how many the files of a table could be fewer."""
    retention: timedelta | None = None
    """How long finished items are kept; ``None`` (default): for ever."""
    free: int = 100 * 2**20
    """Bytes that should be left on the disk; never less than the queue takes, which merges write
    once more."""
    clock_skew: timedelta = timedelta(seconds=30)
    """By how much clocks may differ."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _OPTIONAL:
                optional(require_duration, field.name, value, error=InvalidArgumentError)
            elif isinstance(field.default, int):
                require_count(field.name, value, InvalidArgumentError)
            elif field.name in _FROM_ZERO:
                require_duration(field.name, value, InvalidArgumentError, timedelta(0))
            else:
                require_duration(field.name, value, InvalidArgumentError)


def require_thresholds(thresholds: object) -> Thresholds:
    """Return thresholds, or the default ones.

    Raises
    ------
    InvalidArgumentError
        When they are something else.
    """
    if thresholds is None:
        return Thresholds()
    if not isinstance(thresholds, Thresholds):
        raise InvalidArgumentError(f"thresholds are {shorten(thresholds)}: they must be Thresholds")
    return thresholds


#: How bad it is: good to know, to be looked at, or in the way of the queue.
Severity = Literal["info", "warning", "error"]

_SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fault or a warning about a queue."""

    id: str
    """What it is, in a word that stays the same: ``paused``."""
    severity: Severity
    """``"info"``: good to know; ``"warning"``: look at it; ``"error"``: the queue does not work, or
    gives wrong answers, until it is mended."""
    what: str
    """The fact, in a sentence."""
    since: datetime | None = None
    """Since when; ``None`` where unknown."""
    command: str
    """What mends it, or shows what to mend: a command to paste. Empty where the queue's name is not
    safe to paste."""
    reader: str = ""
    """The reader that it is about; empty for the default reader, and for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUse:
    """The storage that a queue takes."""

    size: int
    """Bytes of its tables: with their logs on this machine's disk, without them elsewhere."""
    kinds: Mapping[str, int]
    """The same by what they are: ``rows`` that are read, and ``refused`` ones; ``commits`` with
    their checkpoints; ``replaced`` files, which are read no more and go a week later."""
    free: int | None
    """Bytes that are left on this machine's disk; ``None`` elsewhere."""
    format: int
    """The format that its rows have."""
    newest_format: int
    """The format that this release writes: an upgrade is due where that is another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """The findings of one examination of a queue."""

    queue: str
    """The queue's name or path."""
    at: datetime
    """When."""
    findings: tuple[Finding, ...]
    """The findings, the worst first."""
    unchecked: Mapping[str, str]
    """Checks that could not be made, and why."""
    storage: StorageUse | None = None
    """The storage it takes; ``None`` if it is in memory, or does not open."""

    @property
    def worst(self) -> Severity | None:
        """The severity of the worst finding; ``None`` without findings."""
        return self.findings[0].severity if self.findings else None

    def ids(self) -> list[str]:
        """Return the ids of the findings."""
        return [found.id for found in self.findings]

    def _repr_html_(self) -> str:
        rows = "".join(_row(found) for found in self.findings)
        left = (
            f" {plural(len(self.unchecked), 'check')} could not be made." if self.unchecked else ""
        )
        said = f"<b>{in_html(self.queue)}</b>: {plural(len(self.findings), 'finding')}.{left}"
        return f"{said}<table>{rows}</table>" if rows else said


def how_bad(found: Finding) -> int:
    """Return a sort key that puts the worst first."""
    return -_SEVERITIES.index(found.severity)


def _row(found: Finding) -> str:
    since = instant(found.since)
    cells = (found.severity, found.id, found.what, since)
    texts = "".join(f"<td>{in_html(text)}</td>" for text in cells)
    return f"<tr>{texts}<td><code>{in_html(found.command)}</code></td></tr>"


#: How many things of a kind a sentence names.
_NAMED = 3

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def span(length: timedelta) -> str:
    """Say a duration in its largest unit, with three digits."""
    seconds = length.total_seconds()
    for unit, name in _UNITS:
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.3g} s"


def list_names(names: Sequence[str]) -> str:
    """Name the first of some things, and the number of the others."""
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")
