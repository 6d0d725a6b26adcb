"""What a command shows: tables for people, or one JSON object for programs."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_queue.cli.exits import exit_of, message_of
from spark_queue.cli.plain import plain

#: How wide a table may be in a file or a pipe, where there is no edge to stop at.
_PIPE_WIDTH = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """Where a command shows its result and its errors."""

    json: bool = False
    """Whether standard output gets exactly one JSON object."""
    verbose: bool = False
    """Whether errors come with their traceback, and libraries may speak."""

    def show(self, result: Any, *tables: Table | str) -> None:
        """Show a result: as JSON, or as the tables and lines that are made from it.

        Without any, the fields of the result are listed.
        """
        data = plain(result)
        if self.json:
            sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
            return
        console = _console()
        for part in tables or (fields_table(data),):
            console.print(Text(part) if isinstance(part, str) else part)

    def fail(self, exc: BaseException) -> None:
        """Say in one line what went wrong."""
        if self.verbose:
            traceback.print_exception(exc, file=sys.stderr)
        message = message_of(exc)
        if self.json:
            error = {"error": type(exc).__name__, "message": message, "exit": int(exit_of(exc))}
            sys.stdout.write(json.dumps(error, ensure_ascii=False) + "\n")
        sys.stderr.write(f"spark-queue: {message}\n")


def rows_table(rows: Sequence[Mapping[str, Any]], title: str | None = None) -> Table:
    """Return rows as a table; a column where every row is empty is left out."""
    table = Table(title=title, title_justify="left")
    names = [n for n in (rows[0] if rows else {}) if any(r.get(n) is not None for r in rows)]
    for name in names:
        number = all(isinstance(row[name], int | float | None) for row in rows)
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*[_cell(row[name]) for name in names])
    return table


def fields_table(data: Mapping[str, Any]) -> Table:
    """Return an object as a table of its fields."""
    table = Table(show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in data.items():
        table.add_row(name, _cell(value))
    return table


def _cell(value: Any) -> Text:
    if value is None:
        return Text("")
    if isinstance(value, float):
        return Text(f"{value:,.3f}")
    if isinstance(value, int) and not isinstance(value, bool):
        return Text(f"{value:,}")
    return Text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH)
