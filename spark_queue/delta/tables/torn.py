"""Looks at a table to which others commit meanwhile, on this machine's disk.

A directory is not listed at one moment: of two commits that are made while it is, the second may be
in the list and the first not. Delta takes that for a table that has lost a commit. Another look has
both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_SIGN = "DELTA_VERSIONS_NOT_CONTIGUOUS"

#: How often a table is looked at.
_TRIES = 3

_T = TypeVar("_T")


def is_torn(exc: Exception) -> bool:
    """Tell whether a query failed because a commit was not listed that a later one follows."""
    return _SIGN in str(exc)


def looked(query: Callable[[], _T], tries: int = _TRIES) -> _T:
    """Return what a query answers; one that saw a torn list is asked again, so often in all."""
    try:
        return query()
    except Exception as exc:
        if tries == 1 or not is_torn(exc):
            raise
    return looked(query, tries - 1)
