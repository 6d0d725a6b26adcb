"""Checks of upkeep: checkpoints, small files, items past their retention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from spark_queue.commands.admin import LONG_FOLD
from spark_queue.doctor.subject import ReaderSubject, Subject
from spark_queue.doctor.table import CheckedTable, Files
from spark_queue.log import maintenance
from spark_queue.report.finding import Finding, Severity
from spark_queue.upkeep import purge_items
from spark_queue.upkeep.rewriter import rewriter_of
from spark_queue.wording import number, plural, shell_command, size

#: How many times the commits after which they are summed up may be there: a process does it beside
#: its steps, and gets to it a little later.
_LATE = 3


@dataclass(frozen=True, slots=True)
class _Due:
    """Upkeep that a table is due for."""

    table: CheckedTable
    what: str
    since: datetime | None


def checkpoint_due(subject: Subject) -> Iterator[Finding]:
    """Find status logs with many rows since their checkpoint, which a new process has to read."""
    for reader in subject.readers:
        rows = reader.head.log_rows
        if rows > subject.thresholds.checkpoint_rows:
            yield Finding(
                id="checkpoint-due",
                severity="error" if rows > LONG_FOLD else "warning",
                what=f"{rows:,} rows of the status log are in no checkpoint: "
                "each new process reads them",
                since=_first_step_since(subject, reader),
                command=subject.command("maintain"),
                reader=reader.name,
            )


def _first_step_since(subject: Subject, reader: ReaderSubject) -> datetime | None:
    later = subject.table_of(reader).heads_since(reader.head.checkpoint.step + 1)
    return later[0].at if later else None


def commits_unsummed(subject: Subject) -> Iterator[Finding]:
    """Find tables with too many commits since their last checkpoint."""
    late = []
    for table in subject.tables:
        count, interval = table.count_unsummed()
        if count > _LATE * interval:
            commits = table.newest_commits()
            since = commits[max(0, len(commits) - count)].at if commits else None
            late.append(
                _Due(table, f"{plural(count, 'commit')} of {_log(table)} not summed up", since)
            )
    yield from _as_one(subject, "commits-unsummed", "warning", late)


def compaction_due(subject: Subject) -> Iterator[Finding]:
    """Find tables with so many files that maintenance should have merged them."""
    found = _mergeable(subject, is_due=True)
    yield from _as_one(subject, "compaction-due", "warning", found)


def small_files(subject: Subject) -> Iterator[Finding]:
    """Find tables whose files could be far fewer, before it is time to merge them."""
    yield from _as_one(subject, "small-files", "info", _mergeable(subject, is_due=False))


def _mergeable(subject: Subject, *, is_due: bool) -> list[_Due]:
    found = []
    for table in subject.tables:
        files = table.files()
        if (files.count > maintenance.MANY) is is_due and _could_be_fewer(subject, files):
            what = f"{files.count:,} files of {_log(table)} could be {files.could_be:,}"
            found.append(_Due(table, what, files.since))
    return found


def _as_one(
    subject: Subject, name: str, severity: Severity, due: Sequence[_Due]
) -> Iterator[Finding]:
    """Make one finding of all that the same upkeep mends."""
    if due:
        yield Finding(
            id=name,
            severity=severity,
            what="; ".join(one.what for one in due),
            since=min((one.since for one in due if one.since), default=None),
            command=subject.command("maintain"),
            reader=due[0].table.reader if len(due) == 1 else "",
        )


def _log(table: CheckedTable) -> str:
    """Name a table, with its reader if it has one."""
    return f"the {table.which} log" + (f" of reader {table.reader!r}" if table.reader else "")


def _could_be_fewer(subject: Subject, files: Files) -> bool:
    return files.count - files.could_be >= subject.thresholds.small_files


def retention_due(subject: Subject) -> Iterator[Finding]:
    """Find finished items beyond the retention, which could be dropped."""
    retention = subject.thresholds.retention
    if retention is None:
        return
    subject.require_positions()
    due = purge_items.due(subject.store, retention, rewriter_of(subject.store, reads_files=True))
    items = sum(gen.items for gen in due)
    if items:
        ends = [gen.last for gen in due if gen.last is not None]
        seconds = number(retention.total_seconds())
        yield Finding(
            id="retention-due",
            severity="info",
            what=f"{plural(items, 'item')} finished more than {retention} ago, and could be "
            "dropped",
            since=max(ends) + retention if ends else None,
            command=subject.command("maintain", "--retention", seconds),
        )


def disk_fills(subject: Subject) -> Iterator[Finding]:
    """Find a disk with less space than it should have left, or than merging the tables takes."""
    storage = subject.storage
    if storage is None or storage.free is None:
        return
    if storage.free < max(subject.thresholds.free, storage.size):
        directory = subject.store.handle.place.directory()
        yield Finding(
            id="disk-fills",
            severity="warning",
            what=f"{size(storage.free)} are left on the disk, and the queue takes "
            f"{size(storage.size)}",
            command=shell_command("df", "-h", str(directory)),
        )
