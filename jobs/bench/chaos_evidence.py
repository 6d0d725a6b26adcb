"""Evidence of a run of processes that were killed, and what was found in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]

KINDS = (
    "put and missing",
    "there twice",
    "put by nobody",
    "told otherwise",
    "acked twice",
    "held twice",
    "held twice at a time",
    "settled by others",
    "two of a group",
    "above a limit",
    "above a rate",
    "overtaken",
    "out of order",
    "steps with gaps",
    "kept by the dead",
    "never over",
    "heads wrong",
    "lost by the living",
    "raised",
    "strange files",
    "left behind",
    "files gone",
)


@dataclass(frozen=True, slots=True)
class Found:
    """What was found."""

    faults: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    """By kind, each fault in words."""
    counts: dict[str, int] = field(default_factory=dict)
    """How much there was of what."""

    def note(self, kind: str, details: Iterable[str]) -> None:
        """Add faults."""
        self.faults.setdefault(kind, []).extend(details)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that can be known of a run."""

    items: list[Row]
    """All rows of the item log."""
    moves: list[Row]
    """All rows of the status log."""
    lines: list[Row]
    """What all processes wrote down, by time."""
    deaths: Mapping[int, int]
    """When each life was known to be over."""

    def told(self, what: str) -> Iterator[Row]:
        """Return what was written down of one kind."""
        return (line for line in self.lines if line["what"] == what)

    def entered(self) -> list[Row]:
        """Return the items, in order."""
        rows = (row for row in self.items if row["_kind"] == "item")
        return sorted(rows, key=lambda row: int(row["_seq"]))

    def steps(self) -> dict[int, list[Row]]:
        """Return the transitions of items, by step, in order."""
        steps = defaultdict(list)
        for row in self.moves:
            if row["_kind"] == "item":
                steps[row["_step"]].append(row)
        return dict(sorted(steps.items()))
