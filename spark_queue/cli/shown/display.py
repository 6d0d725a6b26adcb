"""Display of a command: tables for people, or JSON for programs."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from spark_queue.cli.exits import exit_of, message_of
from spark_queue.cli.shown.console import SafeConsole, text_of
from spark_queue.cli.shown.plain import plain
from spark_queue.wording import visible

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
        # In a pipe or a file it is as wide as a terminal that nobody made wider.
        console = SafeConsole()
        for part in parts or (fields_table(data),):
            if isinstance(part, str):
                # What is one line stays one: people copy paths from it.
                console.print(text_of(part), soft_wrap=True)
            else:
                console.print(part)

    def line(self, data: Mapping[str, Any]) -> None:
        """Write one JSON object on a line of its own."""
        sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def fail(self, exc: BaseException) -> None:
        """Say in one line what went wrong."""
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
