"""Limits: how many of something there may be at once."""

from __future__ import annotations

import math

from spark_queue.errors import InvalidArgumentError
from spark_queue.wording import shorten


def limit_of(name: str, limit: object, *, minimum: int = 1) -> float:
    """Return a limit to compare sizes with: infinity for ``None``.

    Raises
    ------
    InvalidArgumentError
        When it is no whole number of at least the minimum; the message names the argument.
    """
    if limit is None:
        return math.inf
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < minimum:
        raise InvalidArgumentError(
            f"{name} is {shorten(limit)}: it must be a whole number of at least {minimum}, or None"
        )
    return limit
