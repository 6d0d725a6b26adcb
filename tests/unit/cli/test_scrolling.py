"""A screen that is longer than its terminal."""

from __future__ import annotations

import io
import os
import pty
import termios
from collections.abc import Callable, Iterator

import pytest
from rich.console import Console

from spark_queue.cli import scrolling
from spark_queue.cli.scrolling import ScrolledScreen


@pytest.fixture
def printed() -> Callable[..., list[str]]:
    """Print a screen on a terminal of so many lines."""

    def lines(screen: ScrolledScreen, height: int = 6, *, terminal: bool = True) -> list[str]:
        file = io.StringIO()
        Console(
            file=file, width=80, height=height, force_terminal=terminal, color_system=None
        ).print(screen)
        return file.getvalue().splitlines()

    return lines


@pytest.fixture
def screen() -> ScrolledScreen:
    """Make a screen of twenty lines."""
    return ScrolledScreen([f"line {n}" for n in range(1, 21)])


def test_what_fits_is_shown_whole(
    screen: ScrolledScreen, printed: Callable[..., list[str]]
) -> None:
    """A terminal with room, and what is no terminal, has every line and no foot."""
    for lines in (printed(screen, 40), printed(screen, 6, terminal=False)):
        assert [lines[0], lines[-1], len(lines)] == ["line 1", "line 20", 20]


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        ([], 1),
        (["j"], 2),
        (["j", "j", "k"], 2),
        ([" "], 5),
        ([" ", "b"], 1),
        (["\x1b[B", "\x1b[6~"], 6),
        (["G"], 17),
        (["G", "G", "k"], 16),
        (["G", "g"], 1),
        (["k"], 1),
        (["x"], 1),
    ],
)
def test_keys_scroll(
    screen: ScrolledScreen, printed: Callable[..., list[str]], keys: list[str], first: int
) -> None:
    """By a line, by a screen, or to an end, and never beyond it; the foot says where one is."""
    printed(screen)
    for key in keys:
        screen.scroll(key)
        printed(screen)
    lines = printed(screen)
    assert len(lines) == 5
    assert lines[0] == f"line {first}"
    assert lines[-1].startswith(f"lines {first} to {first + 3} of 20")


def test_keys_are_read_until_the_next_look(
    screen: ScrolledScreen, printed: Callable[..., list[str]]
) -> None:
    """Each is followed at once; q ends the wait and says that it is enough."""
    shown: list[int] = []
    pressed: Iterator[str] = iter(["j", "j", "q"])
    printed(screen)

    goes_on = scrolling.wait_for_look(
        screen, lambda _: next(pressed), 60, lambda: shown.append(screen.at)
    )

    assert (goes_on, shown) == (False, [1, 2])
    assert scrolling.wait_for_look(screen, lambda _: "", 0.01, lambda: None)


def test_a_terminal_is_as_it_was_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is read without a return, and the mode of the terminal comes back."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        before = termios.tcgetattr(theirs)
        with scrolling.reading_keys() as wait:
            assert termios.tcgetattr(theirs) != before
            os.write(ours, b"j")
            assert (wait(5), wait(0.01)) == ("j", "")
        assert termios.tcgetattr(theirs) == before
    os.close(ours)
