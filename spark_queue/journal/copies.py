"""Copies of items that can be changed after they were put."""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

T = TypeVar("T")

_CHANGEABLE = (dict, list, set, bytearray)


def own(item: T) -> T:
    """Return an item that nobody else can change, as far as it is made of plain containers.

    A queue writes an item later than it takes it, and may hand it out again: to another reader, or
    when it came back. Objects of other kinds are kept as they are.
    """
    return deepcopy(item) if isinstance(item, _CHANGEABLE) else item
