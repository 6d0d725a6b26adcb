"""Copies of items that can be changed after they were put."""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

from spark_queue.errors import InvalidArgumentError

T = TypeVar("T")

_CHANGEABLE = (dict, list, set, bytearray)


def own(item: T) -> T:
    """Return an item that nobody else can change, as far as it is made of plain containers.

    A queue writes an item later than it takes it, and may hand it out again: to another reader, or
    when it came back. Objects of other kinds are kept as they are.
    """
    if not isinstance(item, _CHANGEABLE):
        return item
    try:
        return deepcopy(item)
    except RecursionError as exc:
        raise InvalidArgumentError("the item is nested too deep to be copied: flatten it") from exc
    except TypeError as exc:
        raise InvalidArgumentError(f"the item cannot be copied, as a queue does: {exc}") from exc
