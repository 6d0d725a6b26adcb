"""Checks for items of which nothing comes: held for long, or given back again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from spark_queue.delta.commands import recovery
from spark_queue.doctor.finding import Finding, span
from spark_queue.doctor.panels import StuckItem
from spark_queue.doctor.subject import Subject
from spark_queue.wording import plural


def held_long(subject: Subject) -> Iterator[Finding]:
    """Find items whose lease was renewed again and again: their handlers go on and on, or hang."""
    for reader in subject.readers:
        panels = subject.panels(reader)
        held = [one for one in panels.stuck if one.lease is not None]
        if held:
            first = held[0]
            lease = span(timedelta(seconds=first.lease or 0))
            yield Finding(
                id="held-long",
                severity="warning",
                what=f"item {first.seq} is held for {span(panels.now - first.since)} by "
                f"{first.worker_id or 'nobody by name'}, by a lease of {lease}{_others(held)}",
                since=first.since,
                command=subject.command("report", "--item", str(first.seq), reader=reader.name),
                reader=reader.name,
            )


def given_back(subject: Subject) -> Iterator[Finding]:
    """Find items that are claimed and given back, again and again, and never tried."""
    for reader in subject.readers:
        found = [one for one in subject.panels(reader).stuck if one.given_back]
        if found:
            worst = max(found, key=lambda one: (one.given_back, -one.seq))
            yield Finding(
                id="given-back",
                severity="warning",
                what=f"item {worst.seq} was given back untouched {worst.given_back:,} times"
                f"{_others(found)}",
                since=worst.since,
                command=subject.command("report", "--item", str(worst.seq), reader=reader.name),
                reader=reader.name,
            )


def output_unasked(subject: Subject) -> Iterator[Finding]:
    """Find claims of holders that are gone which nobody takes over: their output cannot be asked.

    The next claim asks it, and leaves the items as they are where that fails.
    """
    for reader in subject.readers:
        before = subject.now - reader.settings.config.lease
        found = recovery.find_unasked(reader.store, before)
        if found:
            (row, why), more = found[0], len(found) - 1
            ended = row["_lease_expires_at"]
            others = f"; so with {plural(more, 'other claim')}" if more else ""
            yield Finding(
                id="output-unasked",
                severity="error",
                what=f"item {row['_seq']} of claim {row['_claim_id']} waits, whose lease ended "
                f"{span(subject.now - ended)} ago: its output cannot be asked ({why}){others}",
                since=ended,
                command=subject.command("report", "--item", str(row["_seq"]), reader=reader.name),
                reader=reader.name,
            )


def _others(found: Sequence[StuckItem]) -> str:
    return f"; so with {plural(len(found) - 1, 'other')}" if len(found) > 1 else ""
