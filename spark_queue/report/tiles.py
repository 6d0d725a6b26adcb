"""Numbers of a report that matter most, each with a note."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spark_queue.report import pace, sheets
from spark_queue.report.lines import Overview
from spark_queue.report.model import Vitals
from spark_queue.wording import duration, in_html

#: How a number is meant: of no weight, well, at work, to be looked at, wrong.
Tone = Literal["", "good", "busy", "warn", "stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A number that matters."""

    label: str
    value: str
    note: str = ""
    tone: Tone = ""


def tiles(report: Vitals) -> tuple[Tile, ...]:
    """Return the numbers that an operator looks at first."""
    seen, within = report.overview, pace.window_text(report)
    unwell = ", ".join(sheets.unwell(report))
    failures = sum(point.failures for point in report.retries)
    died = sum(point.dead for point in report.retries)
    held = seen.ready - seen.runnable
    return (
        Tile(label="ready", value=f"{seen.ready:,}", note=_waiting(seen, held)),
        Tile(
            label="claimed",
            value=f"{seen.claimed:,}",
            note=unwell,
            tone="warn" if unwell else "busy" if seen.claimed else "",
        ),
        Tile(label="dead", value=f"{seen.dead:,}", tone="stop" if seen.dead else ""),
        Tile(
            label=f"failures in {within}",
            value=f"{failures:,}",
            note=f"{died:,} of them final" if died else "",
            tone="warn" if failures else "",
        ),
        Tile(
            label=f"enqueued in {within}",
            value=f"{seen.enqueued_in_window:,}",
            note=_rates(seen.enqueued_per_second, seen.enqueued_per_second_now),
        ),
        Tile(
            label=f"acked in {within}",
            value=f"{seen.done_in_window:,}",
            note=_rates(seen.done_per_second, seen.done_per_second_now),
            tone="good" if seen.done_in_window else "",
        ),
        Tile(label="done in", value=_time_left(seen), note=_pace(seen)),
    )


def _waiting(seen: Overview, held: int) -> str:
    parts = [f"{held:,} of them may not run yet"] if held else []
    if seen.oldest_age is not None:
        parts.append(f"the oldest has waited {duration(seen.oldest_age)}")
    return ", ".join(parts)


def rate(per_second: float | None) -> str:
    """Say how many come or go, in the unit of which there is one."""
    if not per_second:
        return ""
    for seconds, unit in ((1, "s"), (60, "min"), (3_600, "h")):
        if per_second * seconds >= 1:
            return f"{per_second * seconds:,.1f} / {unit}"
    return f"{per_second * 86_400:,.1f} / d"


def _rates(within: float | None, now: float | None) -> str:
    """Say how many come or go, and how many do now."""
    mean, newest = rate(within), rate(now) or "none"
    return f"{mean}, now {newest}" if mean else ""


def _time_left(seen: Overview) -> str:
    values = {"done": "now", "rises": "never", "stays": "unknown"}
    return values.get(seen.trend) or duration(seen.time_left)


def _pace(seen: Overview) -> str:
    notes = {"done": "nothing is open", "rises": "open items rise", "stays": "nothing ends"}
    return notes.get(seen.trend) or pace.time_range(seen)


def draw_tiles(report: Vitals) -> str:
    """Return the numbers as HTML."""
    drawn = "".join(
        f'<div class="tile {one.tone}"><span>{in_html(one.label)}</span><b>{in_html(one.value)}</b>'
        f"<small>{in_html(one.note)}</small></div>"
        for one in tiles(report)
    )
    return f'<div class="tiles">{drawn}</div>'
