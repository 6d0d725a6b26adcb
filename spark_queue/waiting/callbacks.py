"""Calls that are all made, even if one raises."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def call_each(calls: Iterable[Callable[[], object]]) -> None:
    """Make every call in turn, also when one of them raises; the first error is raised in the end.

    So a callback that ends its thread, by ``sys.exit`` or an interrupt, still does, and leaves
    nobody waiting who was to be told after it.
    """
    first: BaseException | None = None
    for call in calls:
        try:
            call()
        except BaseException as error:  # noqa: BLE001, PERF203 - raised below
            first = first or error
    if first is not None:
        try:
            raise first
        finally:
            # Else the error would hold its own traceback, and so itself.
            del first
