"""Checks for items that do not get done: leases, ages, failures, dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from spark_queue.doctor.finding import Finding, list_names, span
from spark_queue.doctor.subject import ReaderSubject, Subject
from spark_queue.report.model import RetryPoint
from spark_queue.report.view_texts import redrive_command
from spark_queue.results import Liveness
from spark_queue.wording import plural

#: How much of an error is told.
_CHARS = 120


def leases_overdue(subject: Subject) -> Iterator[Finding]:
    """Find items whose lease ran out, and that nobody has claimed since."""
    for reader in subject.readers:
        panels = subject.panels(reader)
        least = panels.now - subject.limits.lease_grace
        late = [
            one
            for one in panels.workers
            if one.liveness is Liveness.LATE and one.until and one.until <= least
        ]
        if late:
            named = list_names([one.worker_id or "nobody by name" for one in late])
            yield Finding(
                id="leases-overdue",
                severity="warning",
                what=f"{sum(one.late for one in late):,} lease(s) ran out, of {named}, and nobody "
                f"gets their items: {_why_nobody(reader)}",
                since=min(one.until for one in late if one.until),
                command=subject.worker_command(reader),
                reader=reader.name,
            )


def workers_gone(subject: Subject) -> Iterator[Finding]:
    """Find items that a worker holds which is gone, and that nobody has claimed since."""
    for reader in subject.readers:
        workers = subject.panels(reader).workers
        gone = [one for one in workers if one.items and one.liveness is Liveness.GONE]
        if gone:
            named = list_names([one.worker_id or "nobody by name" for one in gone])
            items = plural(sum(one.items for one in gone), "item")
            are = "is" if len(gone) == 1 else "are"
            yield Finding(
                id="workers-gone",
                severity="warning",
                what=f"{named} {are} gone, and held {items}, for the next claim to take over"
                f"{', but it is paused' * reader.settings.paused}",
                since=min((one.since for one in gone if one.since), default=None),
                command=subject.worker_command(reader),
                reader=reader.name,
            )


def _why_nobody(reader: ReaderSubject) -> str:
    return "it is paused" if reader.settings.paused else "no worker claims any"


def items_too_old(subject: Subject) -> Iterator[Finding]:
    """Find items that have waited longer than they may since their time came."""
    allowed = subject.limits.oldest
    for reader in subject.readers if allowed else ():
        panels = subject.panels(reader)
        oldest = panels.oldest
        if allowed and oldest and oldest.since + allowed < panels.now:
            age = span(panels.now - oldest.since)
            yield Finding(
                id="items-too-old",
                severity="warning",
                what=f"item {oldest.seq} has waited for {age}, and is {oldest.reason}",
                since=oldest.since + allowed,
                command=subject.command("explain", str(oldest.seq), reader=reader.name),
                reader=reader.name,
            )


def retry_storm(subject: Subject) -> Iterator[Finding]:
    """Find more failures than successes, and many of them."""
    for reader in subject.readers:
        panels = subject.panels(reader)
        failures = sum(point.failures for point in panels.retries)
        done = panels.overview.done_in_window
        if failures >= subject.limits.failures and failures > done:
            most = panels.errors[0]
            yield Finding(
                id="retry-storm",
                severity="warning",
                what=f"{failures:,} attempts failed in {span(subject.limits.window)}, and "
                f"{done:,} went well; {most.in_window:,} with: {most.wording[:_CHARS]}",
                since=_first(panels.retries, "failures"),
                command=subject.command("pause", reader=reader.name),
                reader=reader.name,
            )


def dead_growing(subject: Subject) -> Iterator[Finding]:
    """Find items that died of late, where not all were enqueued again since."""
    for reader in subject.readers:
        panels = subject.panels(reader)
        dead = sum(point.dead for point in panels.retries)
        # Those that were enqueued again since are looked after.
        left = [one for one in panels.errors if one.dead]
        if dead < subject.limits.dead or not left:
            continue
        worst = max(left, key=lambda one: one.in_window)
        mends = redrive_command(subject.store.name, reader.name, worst.wording)
        yield Finding(
            id="dead-growing",
            severity="warning",
            what=f"{dead:,} item(s) died in {span(subject.limits.window)}; of the most: "
            f"{worst.wording[:_CHARS]}",
            since=_first(panels.retries, "dead"),
            command=mends or subject.command("dead", reader=reader.name),
            reader=reader.name,
        )


def _first(points: Sequence[RetryPoint], what: str) -> datetime:
    """Return when the first part of the window began in which there was some of something."""
    return next(point.at for point in points if getattr(point, what))
