"""Rates of a queue and the time until it is done, in words."""

from __future__ import annotations

from spark_queue.report.lines import Overview
from spark_queue.report.model import Vitals
from spark_queue.wording import duration, lasting


def window_text(report: Vitals) -> str:
    """Return the length of the part of the window that has items."""
    seconds = report.overview.seconds
    return lasting(report.window.total_seconds() if seconds is None else seconds)


def rates(within: float | None, now: float | None) -> str:
    """Return the rates per second of the window and of now; nothing for none."""
    if not within:
        return ""
    return f", {within:,.2f} a second" + ("" if now is None else f"; now {now:,.2f}")


#: What there is to say where open items do not fall.
_TRENDS = {
    "done": "nothing is open",
    "rises": "never: open items rise",
    "stays": "unknown: nothing has ended in the last minutes",
}


def time_left(seen: Overview) -> str:
    """Say how long it takes until nothing is open."""
    return _TRENDS.get(seen.trend) or f"{duration(seen.time_left)}, {time_range(seen)}"


def time_range(seen: Overview) -> str:
    """Return the range of the time until no item is open."""
    least, most = duration(seen.time_left_least), duration(seen.time_left_most)
    return f"from {least} to {most}" if most else "or more: nothing ended just now"
