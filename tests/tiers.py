"""Tests that cost much: which of them `check` leaves to `check --all`, and why each is slow.

They stand in ``tiers.txt``, a line each: a tier, a test or a file or folder of tests, and a reason.
A ``*`` behind the file stands for any text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path, PurePosixPath

import pytest

#: Of all tests, the most that `check` may leave out.
MOST_LEFT_OUT = 0.1

FILE = Path(__file__).with_suffix(".txt")

#: Where `check` looks for no test that starts Spark.
_UNITS = "tests/unit/"

_GUARANTEES = Path(__file__).parents[1] / "docs" / "guarantees.md"

#: What means more than itself in a pattern, but for ``*``.
_LITERAL = re.compile(r"[\[?]")

#: Left to ``check --all``; and in ``check``, but of more than five seconds.
_TIERS = ("all", "slow")


@dataclass(frozen=True, slots=True)
class Tier:
    """A line of ``tiers.txt``."""

    tier: str
    test: str
    reason: str

    def holds(self, nodeid: str) -> bool:
        """Tell whether a test is one that the line names."""
        if "*" in self.test:
            return fnmatchcase(nodeid, _LITERAL.sub(r"[\g<0>]", self.test))
        rest = nodeid.removeprefix(self.test)
        return nodeid.startswith(self.test) and rest[:1] in ("", "[", ":", "/")


@dataclass(frozen=True)
class Tiers:
    """The lines, which are found by the file or the folder that each of them names."""

    lines: Sequence[Tier]

    @cached_property
    def _by_place(self) -> Mapping[str, Sequence[Tier]]:
        found: defaultdict[str, list[Tier]] = defaultdict(list)
        for tier in self.lines:
            found[tier.test.partition("::")[0]].append(tier)
        return found

    def of(self, nodeid: str) -> Iterator[Tier]:
        """Yield the lines that name a test."""
        file = PurePosixPath(nodeid.partition("::")[0])
        for place in (file, *file.parents):
            for tier in self._by_place.get(str(place), ()):
                if tier.holds(nodeid):
                    yield tier


def read(file: Path = FILE) -> Tiers:
    """Return the lines of the file.

    Raises
    ------
    pytest.UsageError
        When a line is no tier, test and reason.
    """
    told: list[Tier] = []
    for line in file.read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        parts = re.split(r"\s{2,}", line, maxsplit=2)
        if len(parts) < len(Tier.__slots__) or parts[0] not in _TIERS:
            raise pytest.UsageError(f"{file.name}: {line!r} is no tier, test and reason")
        told.append(Tier(*parts))
    return Tiers(told)


def mark(items: Sequence[pytest.Item], tiers: Tiers) -> None:
    """Mark as ``thorough`` what is left to ``check --all``."""
    for item in items:
        if any(tier.tier == "all" for tier in tiers.of(item.nodeid)):
            item.add_marker("thorough")


def require_sound(items: Sequence[pytest.Item], tiers: Tiers) -> None:
    """Check the file against all tests.

    Raises
    ------
    pytest.UsageError
        When a line names no test; when `check` leaves out more than a tenth of all tests, or a law
        of the guarantees on Spark; when a test starts Spark where that stage does not look.
    """
    named = {tier.test for item in items for tier in tiers.of(item.nodeid)}
    stale = [tier.test for tier in tiers.lines if tier.test not in named]
    if stale:
        raise pytest.UsageError(f"tiers.txt names no test by {', '.join(stale)}")
    left_in = [item for item in items if item.get_closest_marker("thorough") is None]
    count = len(items) - len(left_in)
    if count > MOST_LEFT_OUT * len(items):
        raise pytest.UsageError(f"check leaves out {count} of {len(items)} tests: a tenth may be")
    on_spark = [item for item in left_in if _is_on_spark(item)]
    misplaced = [item.nodeid for item in on_spark if item.nodeid.startswith(_UNITS)]
    if misplaced:
        raise pytest.UsageError(f"check starts no Spark for {', '.join(misplaced)}")
    missing = _laws() - {law for item in on_spark for law in cited_laws(item)}
    if missing:
        raise pytest.UsageError(f"check leaves out laws {sorted(missing)} on Spark")


def cited_laws(item: pytest.Item) -> Iterator[int]:
    """Yield the numbers of the laws that a test names, as ``Laws 2 and 7`` or ``Laws 1-9``."""
    text = getattr(getattr(item, "obj", None), "__doc__", None) or ""
    for cited in re.findall(r"\bLaws? ((?:\d+|[-, ]|and )+)", text):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", cited):
            yield from range(int(first), int(last or first) + 1)


def _laws() -> set[int]:
    text = _GUARANTEES.read_text("utf-8")
    return {int(number) for number in re.findall(r"^(\d+)\. \*\*", text, re.MULTILINE)}


def _is_on_spark(item: pytest.Item) -> bool:
    return item.get_closest_marker("spark") is not None


def reason(nodeid: str, tiers: Tiers) -> str:
    """Return why a test is slow; empty where no line says it."""
    return next((tier.reason for tier in tiers.of(nodeid)), "")
