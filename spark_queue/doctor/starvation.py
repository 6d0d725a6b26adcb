"""Checks for items that wait too long: their leases, ages, failures, tenants and groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from spark_queue.delta.store import fencing
from spark_queue.delta.tables import lives
from spark_queue.doctor.finding import Finding, list_names, span
from spark_queue.doctor.panels import StarvingKey
from spark_queue.doctor.subject import ReaderSubject, Subject
from spark_queue.report.commands import redrive_command
from spark_queue.report.model import HeldGroup, RetryPoint
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


#: Why an item is not done that others wait for, where it is not for want of workers.
_GOES_ON = ("leased", "delayed")

#: Keys whose weight one command raises: who has more starves many on purpose.
_FED = 20

#: How much of an error is told.


def nobody_claims(subject: Subject) -> Iterator[Finding]:
    """Find readers whose items could run, and that nobody has claimed from for too long.

    What a front gives out that holds the queue is in no log before it is done: it claims nothing.
    """
    hold, directory = subject.store.queue_head().hold, subject.store.handle.place.directory()
    readers = subject.readers if fencing.is_over(hold, subject.now, directory) else ()
    for reader in readers:
        seen, now = subject.panels(reader).overview, subject.panels(reader).now
        since = _idle_since(subject, reader)
        if since is not None and now - since >= subject.limits.idle:
            yield Finding(
                id="nobody-claims",
                severity="warning",
                what=f"{plural(seen.runnable, 'item')} could run, and nobody has claimed for "
                f"{span(now - since)}; {_who_lives(subject)}",
                since=since,
                command=subject.worker_command(reader),
                reader=reader.name,
            )


def _idle_since(subject: Subject, reader: ReaderSubject) -> datetime | None:
    """Return since when items could run and nobody works; ``None`` where somebody does."""
    panels = subject.panels(reader)
    works = any(one.items and one.liveness is Liveness.ALIVE for one in panels.workers)
    seen = panels.overview
    if works or seen.runnable_since is None:
        return None
    times = (
        seen.runnable_since,
        seen.last_claim_at,
        seen.last_ack_at,
        _resume_time(subject, reader),
    )
    return max(at for at in times if at is not None)


def _resume_time(subject: Subject, reader: ReaderSubject) -> datetime | None:
    configured = subject.table_of(reader).configurations()
    return max(
        (now.at for was, now in pairwise(configured) if was.paused and not now.paused), default=None
    )


def _who_lives(subject: Subject) -> str:
    directory = subject.store.handle.place.directory()
    if directory is None:
        return "no lease is in force"
    pids = [str(pid) for pid in lives.running(directory)]
    return f"worker process {list_names(pids)} lives" if pids else "no worker lives"


def tenant_starves(subject: Subject) -> Iterator[Finding]:
    """Find fair keys whose items could run, and that get no turn, or almost none, unlike others."""
    for reader in subject.readers:
        keys = [] if reader.settings.paused else subject.panels(reader).starving
        if keys:
            first, *others = keys
            told = plural(first.turns, "turn") if first.turns else "no turn"
            more = (
                f"; so do {list_names([_name(key.fair_key) for key in others])}" if others else ""
            )
            yield Finding(
                id="tenant-starves",
                severity="warning",
                what=f"{_name(first.fair_key)} got {told} in {span(subject.limits.window)}, others "
                f"{first.turns_of_others:,}; {first.items:,} of its items could run{more}",
                since=first.since,
                command=_feed(subject, reader, keys),
                reader=reader.name,
            )


def _feed(subject: Subject, reader: ReaderSubject, keys: Sequence[StarvingKey]) -> str:
    """Return what gives keys their turns again, where weights keep them; or tells what does."""
    weights = reader.settings.config.weights
    light = [key.fair_key for key in keys if weights.get(key.fair_key or "", 1.0) < 1]
    words = [word for key in light[:_FED] for word in ("--weight", f"{key}=1")]
    raised = subject.command("configure", *words, reader=reader.name) if words else ""
    return raised or subject.command("explain", str(keys[0].seq), reader=reader.name)


def _name(key: str | None) -> str:
    return "what has no fair key" if key is None else f"tenant {key!r}"


def priority_starves(subject: Subject) -> Iterator[Finding]:
    """Find priorities whose items could run, and of which higher ones get all turns."""
    for reader in subject.readers:
        panels = subject.panels(reader)
        # A tenant that starves by its priority has a finding.
        known = {key.seq for key in panels.starving}
        found = [one for one in panels.outranked if one.seq not in known]
        if found and not reader.settings.paused:
            first, *others = found
            more = f"; so do {plural(len(others), 'other')}" if others else ""
            yield Finding(
                id="priority-starves",
                severity="warning",
                what=f"priority {first.priority} got no turn in {span(subject.limits.window)}, "
                f"higher ones {first.turns_above:,}; {first.items:,} of its items could run{more}",
                since=first.since,
                command=subject.command("explain", str(first.seq), reader=reader.name),
                reader=reader.name,
            )


def group_starves(subject: Subject) -> Iterator[Finding]:
    """Find groups that wait for one of their own for too long."""
    for reader in subject.readers:
        panels = subject.panels(reader)
        held = [one for one in panels.groups if _starves(one, panels.now, subject.limits.window)]
        if held:
            first, *others = held
            error = f", failed with: {first.error[:_CHARS]}" if first.error else ""
            lost = f", was lost {first.losses} time(s)" if first.losses else ""
            more = (
                f"; so do {list_names([repr(one.group_key) for one in others])}" if others else ""
            )
            yield Finding(
                id="group-starves",
                severity="warning",
                what=f"{first.behind:,} item(s) of group {first.group_key!r} wait for item "
                f"{first.head}, which is {_state_of(first)}{error}{lost}{more}",
                since=panels.now - timedelta(seconds=max(one.oldest_age for one in held)),
                command=_free(subject, reader, first),
                reader=reader.name,
            )


def _state_of(group: HeldGroup) -> str:
    return f"{group.why} by one that is {group.liveness.value}" if group.liveness else group.why


def _free(subject: Subject, reader: ReaderSubject, group: HeldGroup) -> str:
    """Return what lets a group go on; of a head that somebody works on, only what shows it."""
    if group.liveness is None:
        return subject.command("cancel", "--where", f"_seq = {group.head}", reader=reader.name)
    if group.liveness is Liveness.GONE:
        return subject.worker_command(reader)
    return subject.command("report", "--item", str(group.head), reader=reader.name)


def _starves(group: HeldGroup, now: datetime, window: timedelta) -> bool:
    """Tell whether others wait for an item that is tried again and again, or goes on and on."""
    if group.why not in _GOES_ON or group.oldest_age < window.total_seconds():
        return False
    return group.attempts + group.losses > 0 or group.since <= now - window
