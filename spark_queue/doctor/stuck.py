"""Check for claims that stay open, as their output cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from spark_queue.commands import recovery
from spark_queue.doctor.subject import Subject
from spark_queue.report.finding import Finding, span
from spark_queue.wording import plural


def output_unasked(subject: Subject) -> Iterator[Finding]:
    """Find claims of gone holders that no worker takes over, as their output cannot be read.

    Each claim tries to read it, and leaves the items leased where that fails.
    """
    for reader in subject.readers:
        before = subject.now - reader.settings.config.lease
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
