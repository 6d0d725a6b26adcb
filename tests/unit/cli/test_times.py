from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from spark_queue.cli.command import read_as_of, read_start
from spark_queue.cli.commands.admin_commands import news
from spark_queue.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("tail", "tail"),
        ("beginning", "beginning"),
        ("17", 17),
        ("2026-01-31T12:00:00+00:00", datetime(2026, 1, 31, 12, tzinfo=timezone.utc)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=timezone.utc)),
    ],
)
def test_a_start_is_a_place_a_step_or_an_instant(text: str, start: object) -> None:
    """The command line says where a reader starts as the library does."""
    assert read_start(text) == start


@pytest.mark.parametrize("text", ["head", "-1", "2026-01-31T12:00:00", ""])
def test_any_other_start_is_refused(text: str) -> None:
    """A word nobody knows, a negative step and a time without its zone start no reader."""
    with pytest.raises(InvalidArgumentError, match="start is"):
        read_start(text)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            [""],
            ["mail"],
            "taken over from the default reader, with its items and place; while it is",
        ),
        (
            ["", "log"],
            ["mail", "log"],
            "with its items and place; commands need --reader from now on",
        ),
        (["log"], ["log", "mail"], "is one of 2; each sees every item; commands need --reader"),
        ([], ["mail"], "is one of 1; each sees every item; while it is the only one"),
        (["mail"], ["mail"], "reader mail was there already; its limits are as given"),
    ],
)
def test_a_new_reader_is_told_of(before: list[str], after: list[str], said: str) -> None:
    """Who adds a reader learns what it took over, and which commands need a name now."""
    assert said in news("mail", before, after)


def test_a_reader_that_is_there_is_not_moved(
    run: Callable[..., Any], fake: Callable[..., Any]
) -> None:
    """A start for a reader that has one already is refused, and nothing is asked of the queue."""
    queue = fake(readers=("mail",), reader=None)
    ended = run("add-reader", "./q", "mail", "--start", "beginning")
    assert ended.code == 2
    assert "start is 'beginning': reader 'mail' is there already, and stays where" in ended.err
    assert [name for name, _, _ in queue.calls] == ["readers"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (None, None),
        ("17", 17),
        ("2026-01-31T13:00+01:00", datetime(2026, 1, 31, 12, tzinfo=timezone.utc)),
    ],
)
def test_a_look_back_is_to_a_step_or_an_instant(text: str | None, meant: object) -> None:
    """``--as-of`` takes what ``as_of`` takes in a program."""
    assert read_as_of(text) == meant


@pytest.mark.parametrize("text", ["yesterday", "-1", "2026-01-31T12:00:00", "ZZ"])
def test_any_other_look_back_is_refused(text: str) -> None:
    """A word, a negative step and a time without its zone look back at nothing."""
    with pytest.raises(InvalidArgumentError, match="as_of is"):
        read_as_of(text)
