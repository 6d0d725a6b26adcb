from __future__ import annotations

from datetime import datetime, timezone

import pytest

from spark_queue.cli.readers import read_start
from spark_queue.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("tail", "tail"),
        ("beginning", "beginning"),
        ("17", 17),
        ("2026-01-31T12:00:00+00:00", datetime(2026, 1, 31, 12, tzinfo=timezone.utc)),
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
