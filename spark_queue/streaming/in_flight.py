"""Items in flight, by what a checkpoint has of a bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from spark_queue.streaming.stream_pages import GroupTail
from spark_queue.streaming.stream_rules import UNKNOWN


class InFlight(NamedTuple):
    """Something that is in flight, or waits at the head of its key."""

    key: str | None
    state: str
    """In flight, or waits."""
    since: int | None
    """When it passed, or was last started."""
    seq: int | None
    """Of a row of a group, its sequence."""
    number: float | None
    """The run of the row, or the last round of the key."""
    behind: int
    """How many rows wait behind it in its group."""


def items_of(key: str | None, value: Any) -> Iterator[InFlight]:
    """Yield the items of an entry: of a key in flight, of a key with rounds, or of a group."""
    if isinstance(value, int):
        yield InFlight(key, "in flight", None if value == UNKNOWN else value, None, None, 0)
    elif isinstance(value, float):
        yield InFlight(key, "waits", None, None, value, 0)
    else:
        runs, *tail = value
        behind = sum(len(GroupTail({}, plain, plain[2])) for plain in tail)
        for order, number, since, _, _, _, _, lease, _ in runs:
            yield InFlight(key, "in flight" if lease else "waits", since, order, number, behind)


def items_of_bucket(plain: Mapping[str, Any]) -> Iterator[InFlight]:
    """Yield the items of a bucket in a format before 3."""
    for entry in plain.get("live", ()):
        key, at = (entry, UNKNOWN) if isinstance(entry, str) else entry
        yield from items_of(key, at)
    for key, last in plain.get("last", ()):
        yield from items_of(key, float(last))
    for key, live, tail in plain.get("groups", ()):
        for order, _, _, lease, number in live:
            yield InFlight(key, "in flight" if lease else "waits", None, order, number, len(tail))
