"""Finding of a check, and the sum of all findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from spark_queue.wording import in_html

#: How bad it is: good to know, to be looked at, or in the way of the queue.
Severity = Literal["info", "warning", "error"]

_SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about a queue that somebody should know."""

    id: str
    """What it is, in a word that stays the same: ``paused``."""
    severity: Severity
    """``"info"``: good to know; ``"warning"``: look at it; ``"error"``: the queue does not work, or
    gives wrong answers, until it is mended."""
    what: str
    """What is the case, in a sentence."""
    since: datetime | None = None
    """Since when; ``None`` where nobody can tell."""
    command: str
    """What mends it, or shows what to mend: a command to paste. Empty where the queue's name is not
    safe to paste."""
    reader: str = ""
    """The reader that it is about; empty for the default reader, and for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """What a queue takes of its storage."""

    size: int
    """Bytes of its tables: with their logs on this machine's disk, without them elsewhere."""
    free: int | None
    """Bytes that are left on this machine's disk; ``None`` elsewhere."""
    format: int
    """The format that its rows have."""
    newest_format: int
    """The format that this release writes: an upgrade is due where that is another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """What was found when a queue was looked at."""

    queue: str
    """The queue's name or path."""
    at: datetime
    """When."""
    findings: tuple[Finding, ...]
    """What was found, the worst first."""
    unchecked: Mapping[str, str]
    """Checks that could not be made, and why."""
    storage: Storage | None = None
    """What it takes of its storage; ``None`` of a queue in memory, or one that does not open."""

    @property
    def worst(self) -> Severity | None:
        """How bad the worst finding is; ``None`` where there is none."""
        return self.findings[0].severity if self.findings else None

    def ids(self) -> list[str]:
        """Return what was found, in words."""
        return [found.id for found in self.findings]

    def _repr_html_(self) -> str:
        rows = "".join(_row(found) for found in self.findings)
        left = f" {len(self.unchecked)} check(s) could not be made." if self.unchecked else ""
        said = f"<b>{in_html(self.queue)}</b>: {len(self.findings)} finding(s).{left}"
        return f"{said}<table>{rows}</table>" if rows else said


def how_bad(found: Finding) -> int:
    """Return a number by which the worst come first."""
    return -_SEVERITIES.index(found.severity)


def _row(found: Finding) -> str:
    since = "" if found.since is None else found.since.isoformat(" ", "seconds")
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
    """Name the first of some things, and say how many more there are."""
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")
