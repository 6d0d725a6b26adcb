"""Glance at a queue, as a notebook shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_queue.report import page, reading
from spark_queue.wording import in_html

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_queue.state.store import Store

#: Rows of both logs up to which they are counted for a glance: more take over a second.
_MOST = 200_000


def draw_glance(name: str, store: Store, counts: Callable[[], Mapping[str, int]]) -> str:
    """Return how a queue does, as HTML.

    Of one that only Spark reads it is the name, and of a large one the name and the counts.
    """
    name = in_html(name)
    if not all(store.native(which) for which in reading.LOGS):
        return name
    if store.queue_head().items + store.status_head().log_rows <= _MOST:
        return page.glance(reading.read_vitals(store))
    told = (f"{count:,} {state}" for state, count in counts().items() if count)
    return f"<b>{name}</b>: {', '.join(told)}"
