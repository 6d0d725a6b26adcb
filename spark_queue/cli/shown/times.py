"""Instants and steps on the command line."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from typer import Option

from spark_queue.errors import InvalidArgumentError

AsOfOption = Annotated[
    str | None,
    Option(help="As it was: a step of the status log, or a time with its zone (ISO 8601)."),
]


def read_as_of(text: str | None) -> int | datetime | None:
    """Read what to look back at.

    Raises
    ------
    InvalidArgumentError
        When it is no number and no time with a zone.
    """
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    return _instant(text, "as_of", "a step of the status log")


def read_start(text: str) -> Literal["tail", "beginning"] | int | datetime:
    """Read where a reader starts.

    Raises
    ------
    InvalidArgumentError
        When it is no word for a place, no number and no time with a zone.
    """
    if text == "tail":
        return "tail"
    if text == "beginning":
        return "beginning"
    if text.isdecimal():
        return int(text)
    return _instant(text, "start", "tail, beginning, a step")


def _instant(text: str, what: str, others: str) -> datetime:
    try:
        # Python 3.10 does not read the Z.
        instant = datetime.fromisoformat(text.removesuffix("Z") + "+00:00" * text.endswith("Z"))
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise InvalidArgumentError(
            f"{what} is {text!r}: it is {others}, or a time with its zone, "
            "as in 2026-01-31T12:00:00+00:00"
        )
    return instant
