"""Whether items get done: leases, ages, failures, dead letters, and who waits for ever."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from spark_queue.delta.tables.liveness import Liveness
from spark_queue.doctor.finding import Finding
from spark_queue.doctor.panels import StarvingKey
from spark_queue.doctor.subject import Seen, Subject
from spark_queue.report.model import HeldGroup, RetryPoint, redrive_command

#: Findings of one kind that are told of a reader; of more it is told how many there are.
_TOLD = 5

#: Why an item is not done that others wait for, where it is not for want of workers.
_GOES_ON = ("leased", "delayed")

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
            named = ", ".join(str(one.worker_id or "nobody by name") for one in late[:_TOLD])
            yield Finding(
                id="leases-overdue",
                severity="warning",
                what=f"{sum(one.late for one in late):,} lease(s) ran out, of {named}, and nobody "
                f"gets their items: {_why_nobody(reader)}",
                since=min(one.until for one in late if one.until),
                command=_worker(subject, reader),
                reader=reader.name,
            )


def workers_gone(subject: Subject) -> Iterator[Finding]:
    """Find items that a worker holds which is gone, and that nobody has claimed since."""
    for reader in subject.readers:
        workers = subject.panels(reader).workers
        gone = [one for one in workers if one.items and one.liveness is Liveness.GONE]
        if gone:
            named = ", ".join(str(one.worker_id or "nobody by name") for one in gone[:_TOLD])
            yield Finding(
                id="workers-gone",
                severity="warning",
                what=f"{named} held {sum(one.items for one in gone):,} item(s), and is gone; the "
                f"next claim gets them{', but it is paused' * reader.settings.paused}",
                since=min((one.since for one in gone if one.since), default=None),
                command=_worker(subject, reader),
                reader=reader.name,
            )


def _why_nobody(reader: Seen) -> str:
    return "it is paused" if reader.settings.paused else "no worker claims any"


def _worker(subject: Subject, reader: Seen) -> str:
    if reader.settings.paused:
        return subject.command("resume", reader=reader.name)
    return subject.command("process", "MODULE:FUNCTION", reader=reader.name)


def items_too_old(subject: Subject) -> Iterator[Finding]:
    """Find items that have waited longer than they may since their time came."""
    allowed = subject.limits.oldest
    for reader in subject.readers if allowed else ():
        panels = subject.panels(reader)
        oldest = panels.oldest
        if allowed and oldest and oldest.since + allowed < panels.now:
            age = _said(panels.now - oldest.since)
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
        if failures >= subject.limits.failures and failures > panels.done:
            most = panels.errors[0]
            yield Finding(
                id="retry-storm",
                severity="warning",
                what=f"{failures:,} attempts failed in {_said(subject.limits.window)}, and "
                f"{panels.done:,} went well; {most.in_window:,} with: {most.wording[:_CHARS]}",
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
            what=f"{dead:,} item(s) died in {_said(subject.limits.window)}; of the most: "
            f"{worst.wording[:_CHARS]}",
            since=_first(panels.retries, "dead"),
            command=mends or subject.command("dead", reader=reader.name),
            reader=reader.name,
        )


def _first(points: Sequence[RetryPoint], what: str) -> datetime:
    """Return when the first part of the window began in which there was some of something."""
    return next(point.at for point in points if getattr(point, what))


def tenant_starves(subject: Subject) -> Iterator[Finding]:
    """Find fair keys whose items could run, and that get no turn while others do."""
    for reader in subject.readers:
        keys = [] if reader.settings.paused else subject.panels(reader).starving
        for key in keys[:_TOLD]:
            more = f" ({len(keys)} keys starve)" if len(keys) > 1 else ""
            yield Finding(
                id="tenant-starves",
                severity="warning",
                what=f"{_name(key.fair_key)} got no turn in {_said(subject.limits.window)}, others "
                f"{key.turns_of_others:,}; {key.items:,} of its items could run{more}",
                since=key.since,
                command=_feed(subject, reader, key),
                reader=reader.name,
            )


def _feed(subject: Subject, reader: Seen, key: StarvingKey) -> str:
    """Return what gives a key its turns again, where a weight keeps it; or tells what does."""
    weight = reader.settings.config.weights.get(key.fair_key or "", 1.0)
    explained = subject.command("explain", str(key.seq), reader=reader.name)
    if key.fair_key is None or weight >= 1:
        return explained
    raised = subject.command("configure", "--weight", f"{key.fair_key}=1", reader=reader.name)
    return raised or explained


def _name(key: str | None) -> str:
    return "what has no fair key" if key is None else f"tenant {key!r}"


def group_starves(subject: Subject) -> Iterator[Finding]:
    """Find groups that wait for one of their own for too long."""
    for reader in subject.readers:
        panels = subject.panels(reader)
        held = [one for one in panels.groups if _starves(one, panels.now, subject.limits.window)]
        for group in held[:_TOLD]:
            error = f", failed with: {group.error[:_CHARS]}" if group.error else ""
            more = f" ({len(held)} groups starve)" if len(held) > 1 else ""
            yield Finding(
                id="group-starves",
                severity="warning",
                what=f"{group.behind:,} item(s) of group {group.group_key!r} wait for item "
                f"{group.head}, which is {_state_of(group)}{error}{more}",
                since=panels.now - timedelta(seconds=group.oldest_age),
                command=_free(subject, reader, group),
                reader=reader.name,
            )


def _state_of(group: HeldGroup) -> str:
    return f"{group.why} by one that is {group.liveness.value}" if group.liveness else group.why


def _free(subject: Subject, reader: Seen, group: HeldGroup) -> str:
    """Return what lets a group go on; of a head that somebody works on, only what shows it."""
    if group.liveness is None:
        return subject.command("cancel", "--where", f"_seq = {group.head}", reader=reader.name)
    if group.liveness is Liveness.GONE:
        return _worker(subject, reader)
    return subject.command("report", "--item", str(group.head), reader=reader.name)


def _starves(group: HeldGroup, now: datetime, window: timedelta) -> bool:
    """Tell whether others wait for an item that is tried again and again, or goes on and on."""
    if group.why not in _GOES_ON or group.oldest_age < window.total_seconds():
        return False
    return group.attempts + group.losses > 0 or group.since <= now - window


def _said(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.3g} s"
