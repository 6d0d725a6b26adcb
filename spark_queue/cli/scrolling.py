"""Screen of a terminal that keys scroll."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment

from spark_queue.cli.display import text_of

#: Waits so many seconds at most for a key, and returns it; empty where none was pressed.
Wait = Callable[[float], str]

#: Lines by which a key scrolls.
_LINES = {"j": 1, "\x1b[B": 1, "k": -1, "\x1b[A": -1}

#: Screens by which a key scrolls, and keys that go to an end.
_SCREENS = {" ": 1, "\x1b[6~": 1, "b": -1, "\x1b[5~": -1, "g": -10_000, "G": 10_000}

#: Lines that a screen keeps for what it says of itself.
_FOOT = 2


@dataclass(slots=True)
class ScrolledScreen:
    """Parts, of which a terminal shows as many lines as fit."""

    parts: Sequence[RenderableType] = ()
    at: int = 0
    """The first line that is shown."""
    _room: int = 1

    def scroll(self, key: str) -> None:
        """Go where a key leads; the next look finds the end."""
        self.at = max(0, self.at + _LINES.get(key, 0) + _SCREENS.get(key, 0) * self._room)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(Group(*self.parts), options, pad=False)
        if not console.is_terminal or len(lines) < console.height:
            self.at = 0
            yield from _join_lines(lines)
            return
        self._room = max(1, console.height - _FOOT)
        self.at = min(self.at, len(lines) - self._room)
        end = self.at + self._room
        yield from _join_lines(lines[self.at : end])
        yield text_of(f"lines {self.at + 1} to {end} of {len(lines)}: j k space b scroll, q ends")


def _join_lines(lines: Sequence[Sequence[Segment]]) -> Iterator[Segment]:
    for line in lines:
        yield from line
        yield Segment.line()


@contextmanager
def reading_keys() -> Iterator[Wait]:
    """Have keys read as they are pressed; where there is no terminal, nothing is read."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        yield partial(_read, number)
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _sleep(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def _read(number: int, seconds: float) -> str:
    ready, _, _ = select.select([number], [], [], seconds)
    return os.read(number, 8).decode("utf-8", "replace") if ready else ""


def wait_for_look(
    screen: ScrolledScreen, wait: Wait, seconds: float, show: Callable[[], None]
) -> bool:
    """Let keys scroll until the next look is due; False for the key that quits."""
    due = time.monotonic() + seconds
    while (left := due - time.monotonic()) > 0:
        key = wait(left)
        if key == "q":
            return False
        if key:
            screen.scroll(key)
            show()
    return True
