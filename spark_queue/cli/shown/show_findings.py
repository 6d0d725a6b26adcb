"""Findings as text: severity, subject, time, and the command to paste."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from rich.console import RenderableType

from spark_queue.cli.shown import words
from spark_queue.cli.shown.plain import Plain
from spark_queue.wording import visible

#: Columns of a terminal that nobody made wider.
_WIDTH = 80


def checkups(data: Plain) -> list[RenderableType]:
    """Show what was found of each queue, the worst first, and which could not be examined."""
    lines: list[RenderableType] = [x for one in data["queues"] for x in _checkup(one)]
    for one in data.get("failed", ()):
        lines += [f"{one['queue']}: cannot be examined", f"    {one['message']}"]
    return lines


def _checkup(data: Plain) -> Iterator[str]:
    found, left = data["findings"], data["unchecked"]
    count = words.plural(len(found), "finding") if found else "nothing found"
    yield f"{data['queue']}: {count}"
    if data.get("storage"):
        yield f"  {_storage(data['storage'])}"
    for finding in found:
        yield from _finding(finding)
    for why in dict.fromkeys(left.values()):
        names = ", ".join(name for name, said in left.items() if said == why)
        yield from _wrap(f"not checked: {names}", 2)
        yield from _wrap(why, 4)


def _storage(data: Plain) -> str:
    free = "" if data["free"] is None else f", {words.size(data['free'])} free"
    due = f": an upgrade to {data['newest_format']} is due"
    is_due = data["format"] != data["newest_format"]
    return f"{words.size(data['size'])} on disk{free}; format {data['format']}{due * is_due}"


def _wrap(text: str, indent: int) -> list[str]:
    """Break a sentence into lines of a terminal; no word of it, which may be a path."""
    before = " " * indent
    return wrap(
        visible(text),
        _WIDTH,
        initial_indent=before,
        subsequent_indent=before,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _finding(data: Plain) -> Iterator[str]:
    since = f", since {words.instant(data['since'])}" if data["since"] else ""
    reader = f", reader {data['reader']}" if data["reader"] else ""
    yield f"  {data['severity']}: {data['id']}{reader}{since}"
    yield from _wrap(data["what"], 4)
    if data["command"]:
        yield f"    {_prompt(data['command'])} {data['command']}"


def _prompt(command: str) -> str:
    """Return before what a command is typed: a shell, SQL, or a session of Python."""
    if command.startswith("spark.conf."):
        return ">>>"
    return "SQL>" if command.startswith(("DELETE ", "DESCRIBE ")) else "$"
