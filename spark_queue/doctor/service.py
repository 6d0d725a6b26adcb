"""Checks of service: a lost front, format, session, outputs that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from spark_queue.commands import forward_items, recovery
from spark_queue.doctor.subject import Subject
from spark_queue.errors import FormatVersionError, UnsafeSessionError
from spark_queue.log.schema import FORMAT_VERSION
from spark_queue.log.session_options import STALENESS, PlainSession, is_fresh, kept_by
from spark_queue.report.finding import Finding, Severity, span
from spark_queue.rules.places import lapsed_by
from spark_queue.session import DURABILITY
from spark_queue.state import fence
from spark_queue.wording import agree, plural, shell_command

#: A session's setting by which a task, and the handler in it, may run twice at the same time.
_SPECULATION = "spark.speculation"


def front_gone(subject: Subject) -> Iterator[Finding]:
    """Find a front that held the queue for itself, and ended without giving it up."""
    head = subject.store.queue_head()
    directory = subject.store.handle.place.directory()
    if fence.is_gone(head.hold, subject.now, directory):
        yield Finding(
            id="front-gone",
            severity="warning",
            what=f"the front {head.hold.by} held the queue, and is gone without giving it up",
            since=datetime.fromisoformat(head.at),
            command=subject.command("maintain"),
        )


def send_refused(subject: Subject) -> Iterator[Finding]:
    """Find items that their target queue does not take."""
    for reader in subject.readers:
        for target, count, why in forward_items.waiting(reader.store):
            waits, them = agree(count, "waits", "wait"), agree(count, "it", "them")
            what = f"{plural(count, 'item')} {waits} for {target!r}, which refuses {them}"
            if not count:
                what = f"what ends cannot go to {target!r}"
            yield Finding(
                id="send-refused",
                severity="warning",
                what=f"{what}: {why}",
                command=shell_command("spark-queue", "status", target),
                reader=reader.name,
            )


def format_newer(subject: Subject) -> Iterator[Finding]:
    """Find a format that this release does not read."""
    try:
        _ = subject.readers
    except FormatVersionError as exc:
        yield Finding(
            id="format-newer",
            severity="error",
            what=str(exc),
            command="pip install --upgrade spark-queue",
        )


def format_older(subject: Subject) -> Iterator[Finding]:
    """Find a format that later releases have replaced."""
    if subject.format < FORMAT_VERSION:
        yield Finding(
            id="format-older",
            severity="info",
            what=f"it has format version {subject.format}, and this release writes "
            f"{FORMAT_VERSION}; look first with --dry-run",
            command=subject.command("upgrade"),
        )


def unsafe_session(subject: Subject) -> Iterator[Finding]:
    """Find session settings that lose or repeat work, or read late."""
    session = subject.store.session
    if kept_by(session) == "process":
        what = "a power cut may take back steps that were told"
        yield _setting(DURABILITY, "info", what, f'spark.conf.set("{DURABILITY}", "disk")')
    if isinstance(session, PlainSession):
        return
    if not is_fresh(session):
        yield _setting(STALENESS, "warning", "tables are read as they were some time ago")
    try:
        subject.store.queue.require_own_transactions()
    except UnsafeSessionError as exc:
        yield _setting(exc.setting, "error", "every write carries it, and most would vanish")
    if str(session.conf.get(_SPECULATION, "false")).lower() == "true":
        what = "a handler would run twice for one lease"
        yield _setting(_SPECULATION, "error", what, f"spark-submit --conf {_SPECULATION}=false")


def _setting(name: str, severity: Severity, why: str, command: str = "") -> Finding:
    return Finding(
        id="unsafe-session",
        severity=severity,
        what=f"{name} is set in this session: {why}",
        command=command or f'spark.conf.unset("{name}")',
    )


def output_unasked(subject: Subject) -> Iterator[Finding]:
    """Find claims of gone holders that no worker takes over, as their output cannot be read.

    Each claim tries to read it, and leaves the items leased where that fails.
    """
    for reader in subject.readers:
        config = reader.settings.config
        before = lapsed_by(subject.now, config) - config.lease
        found = recovery.find_unasked(reader.store, before)
        if found:
            (row, why), more = found[0], len(found) - 1
            ended = row["_lease_expires_at"]
            others = f"; likewise {plural(more, 'other claim')}" if more else ""
            yield Finding(
                id="output-unasked",
                severity="error",
                what=f"item {row['_seq']} of claim {row['_claim_id']} waits, whose lease ended "
                f"{span(subject.now - ended)} ago: its output cannot be asked ({why}){others}",
                since=ended,
                command=subject.command("report", "--item", str(row["_seq"]), reader=reader.name),
                reader=reader.name,
            )
