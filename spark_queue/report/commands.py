"""Commands that a report proposes, to be pasted into a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_queue.wording import shell_command, without_unsafe

if TYPE_CHECKING:
    from spark_queue.report.model import Heading, Report

#: What is between single quotes, and in LIKE stands for itself, or for any one character.
_ANY_ONE = str.maketrans(dict.fromkeys("'\"\\`$!", "_"))
_MARKS = ("<id>", "<path>", "<n>")


def command_on(report: Heading, verb: str, *words: str) -> str:
    """Return a command on the queue and the reader of a report."""
    of = ("--reader", report.reader) if report.reader else ()
    return shell_command("spark-queue", verb, report.queue, *words, *of)


def first_item(report: Report) -> tuple[str, str, str]:
    """Return how to add the first item: a file, the command, and the line of Python."""
    columns = report.columns
    row = ", ".join(f"{name!r}: ..." for name in columns)
    return (
        f"A file of CSV begins with a line of the columns, {','.join(columns)}:",
        command_on(report, "enqueue", "--files", "items.csv"),
        f"queue.enqueue([{{{row}}}])",
    )


def redrive_where(wording: str) -> str:
    """Return the predicate of the dead items of an error.

    Where the wording has a mark, anything may stand. Quotes and control characters may be any
    character, so that no shell, SQL or terminal takes them for its own. It is empty where nothing
    else is left: all would be meant.
    """
    pattern = without_unsafe(wording.translate(_ANY_ONE), "_")
    for mark in _MARKS:
        pattern = pattern.replace(mark, "%")
    if not pattern.strip("%_ \t\r"):
        return ""
    return f"_state = 'dead' AND _error LIKE '{pattern}%'"


def redrive_command(queue: str, reader: str, wording: str) -> str:
    """Return the command that enqueues an error's dead items again, to be pasted in a shell.

    It is empty where :func:`redrive_where` is.
    """
    where = redrive_where(wording)
    if not where:
        return ""
    words = ["spark-queue", "redrive", queue, "--where", where]
    return shell_command(*words, *(["--reader", reader] if reader else []))


def undo_command(queue: str, reader: str, step: int) -> str:
    """Return the command that takes a step back, to be pasted in a shell."""
    words = ["spark-queue", "undo", queue, str(step)]
    return shell_command(*words, *(["--reader", reader] if reader else []))
