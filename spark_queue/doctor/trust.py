"""Checks of trust: commits, files, positions, rows, clocks, properties, columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from spark_queue.columns import kinds
from spark_queue.doctor.subject import Subject
from spark_queue.doctor.table import CheckedTable, Logged, Written, changed_at
from spark_queue.errors import LogDamagedError, QueueNotFoundError
from spark_queue.log.delta import completeness, table_properties
from spark_queue.log.delta.integrity import trace
from spark_queue.log.delta.log import APP_ID
from spark_queue.log.schema import foreign_names
from spark_queue.log.step_events import LogName
from spark_queue.report.finding import Finding, Severity
from spark_queue.state import existence
from spark_queue.state.store import Store
from spark_queue.wording import plural, shell_command

#: Steps whose clocks are looked at, from the newest back; and how many it takes to tell that the
#: files are of another clock, and not of a copy.
_CLOCKED, _ENOUGH = 100, 3


def find_damaged(subject: Subject) -> Iterator[Finding]:
    """Find a log that is not all that was written to it."""
    which: LogName = "queue"
    reader = subject.store
    try:
        _require_whole(reader, which)
        which = "status"
        _require_whole(reader, which)
        existence.require_exists(reader)
        for seen in subject.readers:
            reader = seen.store
            _require_whole(reader, which)
    except (LogDamagedError, OSError) as exc:
        named = exc.log if isinstance(exc, LogDamagedError) else which
        yield _damage(reader, "queue" if named == "queue" else "status", str(exc))


def _damage(store: Store, which: LogName, what: str) -> Finding:
    log = store.log(which)
    directory = _directory(store, which)
    if directory is None:
        since, command = None, ""
    else:
        since, command = changed_at(directory / "_delta_log"), _set_aside(store.name, directory)
    return Finding(
        id="damaged",
        severity="error",
        what=what,
        since=since,
        command=command or f"DESCRIBE HISTORY {log.address.sql()}",
    )


def _require_whole(store: Store, which: LogName) -> None:
    log = store.log(which)
    directory = _directory(store, which)
    if directory is None:
        return
    if not directory.exists():
        raise QueueNotFoundError(store.name)
    completeness.require_uncut(store.name, which, directory)
    head = log.head()
    if head is not None:
        completeness.require_end(store.name, which, log, directory, head.step)


def _directory(store: Store, which: LogName) -> Path | None:
    return store.handle.place.directory_of(store.log(which))


def _set_aside(name: str, directory: Path) -> str:
    """Return the command that moves away a commit cut by a power loss; empty without one."""
    log, cut = directory / "_delta_log", trace(directory, APP_ID).cut
    if not cut:
        return ""
    left = [log / cut, log / f".{cut}.crc", log / f"{cut[:-5]}.crc", directory / "_newest_commit"]
    aside = f"{name}.cut"
    made = shell_command("mkdir", "-p", aside)
    moved = shell_command("mv", *(str(file) for file in left if file.exists()), aside)
    return f"{made} && {moved}" if made and moved else ""


def files_gone(subject: Subject) -> Iterator[Finding]:
    """Find files named by commits that are gone or cut."""
    for table in subject.tables:
        gone = table.files().gone
        if gone:
            more = f", and {len(gone) - 1} more" if len(gone) > 1 else ""
            yield Finding(
                id="files-gone",
                severity="error",
                what=f"rows of the {table.which} log are lost: {gone[0]}{more}",
                command=f"DESCRIBE HISTORY {table.place}",
                reader=table.reader,
            )


def position_gone(subject: Subject) -> Iterator[Finding]:
    """Find readers whose status log is gone: they begin again, repeating their work."""
    for reader in subject.lost_readers:
        name = reader.registered().name
        yield Finding(
            id="position-gone",
            severity="error",
            what=f"the position of reader {name!r} is gone; it would begin where it once did",
            command=subject.command("drop-reader", name),
            reader=name,
        )


def foreign_rows(subject: Subject) -> Iterator[Finding]:
    """Find rows that another program has put into a table."""
    for table in subject.tables:
        foreign = [commit for commit in table.newest_commits() if commit.is_foreign]
        in_force = [commit for commit in foreign if commit.is_in_force]
        rows = table.strangers()
        # Of deleted or merged files only the rows tell.
        if not in_force and not rows.count:
            continue
        commits = in_force or foreign
        number = plural(rows.count, "row") if rows.count else "rows"
        named = ", ".join(str(commit.version) for commit in commits[-5:])
        by = f", by version {named} of the table" if commits else ""
        delete = f"DELETE FROM {table.place} WHERE {rows.where}"  # noqa: S608 - to be read first
        yield Finding(
            id="foreign-rows",
            severity="error",
            what=f"the {table.which} log has {number} that no step of the library wrote{by}",
            since=commits[0].at if commits else None,
            command=delete if rows.where else f"DESCRIBE HISTORY {table.place}",
            reader=table.reader,
        )


def clocks_differ(subject: Subject) -> Iterator[Finding]:
    """Find steps whose times do not fit this machine's clock, their files', or each other."""
    found = []
    for table in subject.tables:
        commits = table.newest_commits()[-_CLOCKED:]
        first = max(1, _last_step(subject, table) - _CLOCKED + 1)
        what = _disagreement(subject, table.heads_since(first), commits)
        if what:
            found.append((table, *what))
    if found:
        table, said, at = found[0]
        logs = ", ".join(f"{one.which} log" for one, _, _ in found)
        yield Finding(
            id="clocks-differ",
            severity="warning",
            what=f"{said} ({logs})",
            since=at,
            command="timedatectl set-ntp true",
            reader=table.reader if len(found) == 1 else "",
        )


def _last_step(subject: Subject, table: CheckedTable) -> int:
    if table.which == "queue":
        return subject.store.queue_head().step
    return next(seen.head.step for seen in subject.readers if seen.name == table.reader)


def _disagreement(
    subject: Subject, steps: Sequence[Logged], commits: Sequence[Written]
) -> tuple[str, datetime] | None:
    """Say by how much clocks differ, and the first step that shows it."""
    skew = subject.thresholds.clock_skew
    for step in steps:
        if step.at > subject.now + skew:
            ahead = _seconds(step.at - subject.now)
            return f"step {step.step} is of {ahead} after this machine's time", step.at
    for before, step in pairwise(steps):
        if step.at < before.at - skew:
            back = _seconds(before.at - step.at)
            return f"step {step.step} is of {back} before the step that it follows", step.at
    return _beside_files(steps, {one.token: one.at for one in commits if one.token}, skew)


def _beside_files(
    steps: Sequence[Logged], files: Mapping[str, datetime], skew: timedelta
) -> tuple[str, datetime] | None:
    """Compare steps with their commits: a step is decided before its file is written, not after.

    Long before is a clock that is behind only where it is so of all, and by about as much: files
    of a copy are late as well, and so is what took long to write.
    """
    late = [(files[step.token] - step.at, step) for step in steps if step.token in files]
    for delay, step in late:
        if delay < -skew:
            return f"step {step.step} is of {_seconds(-delay)} after its file was written", step.at
    delays = [delay for delay, _ in late]
    if len(late) < _ENOUGH or min(delays) <= skew or max(delays) - min(delays) > skew:
        return None
    if late[-1][1].at - late[0][1].at <= skew:
        return None
    least = _seconds(min(delays))
    return f"steps are of {least} before their files were written, all of them", late[0][1].at


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():,.0f} s"


#: A property that makes a queue no worse, whatever it is.
_HARMLESS = "delta.checkpointInterval"


def property_changed(subject: Subject) -> Iterator[Finding]:
    """Find tables whose properties are not as the queue was made with, and what that does."""
    for table in subject.tables:
        properties = table.steps.properties()
        for one, value in table_properties.find_changes(properties):
            yield Finding(
                id="property-changed",
                severity=_severity(one.name, value),
                what=f"the {table.which} log has {one.name} = {value}, and was made with "
                f"{one.value}: {one.meaning}",
                command=f"ALTER TABLE {table.place} SET TBLPROPERTIES ('{one.name}' = "
                f"'{one.value}')",
                reader=table.reader,
            )


def _severity(name: str, value: str) -> Severity:
    if table_properties.keeps_rows({name: value}):
        return "error"
    return "info" if name == _HARMLESS else "warning"


def column_added(subject: Subject) -> Iterator[Finding]:
    """Find columns that another program has added to the item log."""
    columns = subject.store.columns() if subject.tables else ""
    foreign = foreign_names(columns) if columns else []
    if not foreign:
        return
    added = [field for field in kinds.read(columns) if field.name in foreign]
    schema = ", ".join(f"`{field.name}` {field.kind.simple}" for field in added)
    named = ", ".join(map(repr, foreign))
    yield Finding(
        id="column-added",
        severity="warning",
        what=f"the queue log has columns that the queue does not know: {named}; they are null in "
        "what is enqueued, and no claim has them",
        command=subject.command("add-columns", "--schema", schema),
    )
