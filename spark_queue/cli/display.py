"""Display of a command: tables for people, or JSON for programs."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from rich import box
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from spark_queue.cli.words import plain
from spark_queue.errors import (
    FormatVersionError,
    InvalidArgumentError,
    InvalidConfigError,
    QueueExistsError,
    QueueNotFoundError,
    ReaderNotFoundError,
    SchemaMismatchError,
    SetupError,
    SparkNeededError,
    SparkQueueError,
    UnsafeSessionError,
    WriterLockedError,
)
from spark_queue.wording import line_of, visible


class Exit(IntEnum):
    """Exit codes."""

    OK = 0
    """Done. Items that went to the dead letters are a result, not a failure."""
    FAILED = 1
    """The operation failed; nothing of it was done, or it can be started again."""
    USAGE = 2
    """A wrong argument, data that do not fit, no such queue, or a machine that is not set up."""
    LOCKED = 3
    """Another process keeps the right to write to the queue, or a front of it holds the queue."""
    WARNED = 4
    """The doctor found something to look at, or could not make a check."""
    UNSOUND = 5
    """The doctor found what keeps a queue from working, or from giving right answers."""
    INTERRUPTED = 130
    """SIGINT; claimed items are released."""
    TERMINATED = 143
    """SIGTERM; claimed items are released."""


class Terminated(BaseException):
    """Raised in the main thread by SIGTERM."""


_USAGE = (
    FormatVersionError,
    InvalidArgumentError,
    InvalidConfigError,
    QueueExistsError,
    QueueNotFoundError,
    ReaderNotFoundError,
    SchemaMismatchError,
    SetupError,
    SparkNeededError,
    UnsafeSessionError,
)


def exit_of(exc: BaseException) -> Exit:
    """Return the exit code for an error."""
    if isinstance(exc, KeyboardInterrupt):
        return Exit.INTERRUPTED
    if isinstance(exc, Terminated):
        return Exit.TERMINATED
    if isinstance(exc, WriterLockedError):
        return Exit.LOCKED
    return Exit.USAGE if isinstance(exc, _USAGE) else Exit.FAILED


def message_of(exc: BaseException) -> str:
    """Return an error's message in one line."""
    if isinstance(exc, KeyboardInterrupt):
        return "interrupted"
    if isinstance(exc, Terminated):
        return "terminated"
    said = line_of(exc)
    if isinstance(exc, QueueNotFoundError):
        said = said.replace("make it with create()", "make it with spark-queue create")
    if isinstance(exc, SparkQueueError):
        return said
    return f"{type(exc).__name__}: {said}" if said else type(exc).__name__


class SafeConsole(Console):
    """A console on which no text steers the terminal, except rich's own."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return the pieces of something, the texts among them escaped."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else piece._replace(text=visible(piece.text, lines=True))


class SafeFormatter(logging.Formatter):
    """Lines of a log for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text, its control characters escaped."""
        return visible(super().format(record), lines=True)


def text_of(*lines: str) -> Text:
    """Return lines as a cell of a table, escaped before their width is counted."""
    return Text("\n".join(map(visible, lines)))


class Whole(str):
    """A line that is not broken: a command or a path to paste, or what a program reads."""

    __slots__ = ()


def fit(line: str, width: int) -> list[str]:
    """Break a line between words, keeping its indent; paths stay whole."""
    if isinstance(line, Whole) or cell_len(visible(line)) <= width:
        return [line]
    text = visible(line).lstrip(" ")
    indent = line[: len(line) - len(line.lstrip(" "))]
    room, parts = width - len(indent), list[str]()
    for word in text.split(" "):
        first, *rest = [word] if "/" in word else chop_cells(word, room) or [""]
        if parts and cell_len(f"{parts[-1]} {first}") <= room:
            parts[-1] += f" {first}"
        else:
            parts.append(first)
        parts += rest
    return [f"{indent}{part}" for part in parts]


#: The narrowest that a column of texts gets, and the widest that it is made narrower for others.
FOLDED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Display:
    """Where a command shows its result and its errors."""

    json: bool = False
    """Whether standard output gets JSON alone: one object, unless more are asked for."""
    verbose: bool = False
    """Whether errors come with their traceback, and libraries may speak."""

    def show(self, result: Any, *parts: RenderableType) -> None:
        """Show a result: as JSON, or as the tables and lines that are made from it.

        Without any, the fields of the result are listed.
        """
        data = plain(result)
        if self.json:
            self.line(data)
            return
        # In a pipe or a file it is as wide as a usual terminal.
        console = SafeConsole()
        for part in parts or (fields_table(data),):
            if isinstance(part, str):
                for line in fit(part, console.width):
                    console.print(text_of(line), soft_wrap=True)
            else:
                console.print(part)

    def screen(self) -> SafeConsole:
        """Return a console for what moves, quiet where there is no screen."""
        console = SafeConsole(stderr=True)
        # A bar that is off ends in an empty line in some releases of rich.
        console.quiet = self.json or not console.is_terminal
        return console

    def line(self, data: Mapping[str, Any]) -> None:
        """Write one JSON object on a line of its own."""
        sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def warn(self, message: str) -> None:
        """Warn in one line; the command has done its work all the same."""
        sys.stderr.write(f"spark-queue: warning: {visible(message)}\n")

    def asks(self) -> bool:
        """Whether there is a terminal to ask at."""
        return not self.json and sys.stdin.isatty()

    def fail(self, exc: BaseException) -> None:
        """Show an error in one line."""
        if self.verbose:
            sys.stderr.write(visible("".join(traceback.format_exception(exc)), lines=True))
        message = message_of(exc)
        if self.json:
            self.line({"error": type(exc).__name__, "message": message, "exit": int(exit_of(exc))})
        sys.stderr.write(f"spark-queue: {visible(message)}\n")


def compact_table(*names: str, **kinds: str) -> Table:
    """Return an empty table that fits narrow terminals.

    Parameters
    ----------
    *names : str
        Its first columns, of short texts.
    **kinds : str
        More columns: ``left`` and ``right`` are never broken, ``fold`` are, where there is no room.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for name, kind in {**dict.fromkeys(names, "left"), **kinds}.items():
        if kind == "fold":
            table.add_column(name, overflow="fold", min_width=FOLDED)
        else:
            table.add_column(name, justify="right" if kind == "right" else "left", no_wrap=True)
    return table


def fields_table(data: Mapping[str, Any]) -> Table:
    """Return an object as a table of its fields."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in data.items():
        table.add_row(name, _cell(value))
    return table


def _cell(value: Any) -> Text:
    if value is None:
        return text_of("")
    if isinstance(value, float):
        return text_of(f"{value:,.3f}")
    if isinstance(value, int) and not isinstance(value, bool):
        return text_of(f"{value:,}")
    return text_of(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
