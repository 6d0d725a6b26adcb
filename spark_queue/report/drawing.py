"""Drawings of a report, as SVG without a script."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from spark_queue.report.model import Transition
from spark_queue.wording import duration, in_html, lasting

#: A plot, in the units of its own: its width, its height, and room above and below.
_WIDTH, _HEIGHT, _ABOVE, _BELOW = 400, 80, 16, 18

#: A line of a few points in a column of a table.
_SPARK_WIDTH, _SPARK_HEIGHT = 110, 26

#: A time line, and the least of it that a state takes.
_LINE, _LEAST = 1000, 8.0

#: The states that an item stays in.
_ENDS = frozenset({"acked", "dead", "expired", "cancelled", "refused"})


def bars(title: str, unit: str, values: Sequence[int], lasts: float) -> str:
    """Draw bars from the oldest to the newest, with axes.

    Parameters
    ----------
    unit : str
        What is counted.
    lasts : float
        Seconds from the first bar to now.
    """
    most = max(values, default=0)
    step = _WIDTH / max(1, len(values))
    drawn = "".join(_bar(at * step, step * 0.8, value, most) for at, value in enumerate(values))
    base = _ABOVE + _HEIGHT
    name = in_html(f"{title}: at most {most:,} {unit}")
    times = _times(lasts, base + 14)
    return (
        f'<div><h3>{in_html(title)}</h3><svg class="plot" role="img" aria-label="{name}" '
        f'viewBox="0 0 {_WIDTH} {base + _BELOW}"><text x="0" y="11">{most:,} {in_html(unit)}</text>'
        f'{drawn}<line x1="0" y1="{base}" x2="{_WIDTH}" y2="{base}"/>{times}</svg></div>'
    )


def _bar(at: float, wide: float, value: int, most: int) -> str:
    if value <= 0:
        return ""
    height = max(1.0, _HEIGHT * value / most)
    return (
        f'<rect x="{at:.1f}" y="{_ABOVE + _HEIGHT - height:.1f}" width="{wide:.1f}" '
        f'height="{height:.1f}"><title>{value:,}</title></rect>'
    )


def _times(lasts: float, y: float) -> str:
    marks = ((0, "start", f"{lasting(lasts)} ago"), (_WIDTH / 2, "middle", lasting(lasts / 2)))
    texts = (*marks, (_WIDTH, "end", "now"))
    return "".join(
        f'<text x="{x:.0f}" y="{y}" text-anchor="{anchor}">{in_html(text)}</text>'
        for x, anchor, text in texts
    )


def share(part: float, due: float | None = None) -> str:
    """Draw a share as a bar, with a mark at the share that is due."""
    wide = max(0.0, min(100.0, 100 * part))
    rect = f'<rect width="{max(1.0, wide):.0f}" height="4"></rect>' if wide else ""
    mark = (
        "" if due is None else f'<rect class="due" x="{99 * due:.0f}" width="1" height="4"></rect>'
    )
    return (
        '<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
        f"{rect}{mark}</svg>"
    )


def spark(title: str, values: Sequence[int]) -> str:
    """Draw a line without axes; its name says the least, the most and the last."""
    most = max(values, default=0) or 1
    step = _SPARK_WIDTH / max(1, len(values) - 1)
    room = _SPARK_HEIGHT - 3
    points = " L".join(
        f"{at * step:.1f},{1.5 + room * (1 - value / most):.1f}" for at, value in enumerate(values)
    )
    ends = f"{min(values, default=0):,} to {max(values, default=0):,}"
    last = f"{values[-1]:,}" if values else "0"
    name = in_html(f"{title}: {ends}, now {last}")
    return (
        f'<svg class="spark" role="img" aria-label="{name}" '
        f'viewBox="0 0 {_SPARK_WIDTH} {_SPARK_HEIGHT}"><path d="M{points}"><title>{name}</title>'
        "</path></svg>"
    )


def time_line(moves: Sequence[Transition], now: datetime) -> str:
    """Draw where an item was when, from its entry to its end or to now."""
    spans = _spans(moves, now)
    if not spans:
        return ""
    first, last = spans[0][1], spans[-1][2]
    whole = max(1e-6, (last - first).total_seconds())
    drawn = "".join(_span(one, first, whole) for one in spans)
    names = ", ".join(f"{state} {_length(at, to)}" for state, at, to in spans)
    legend = "".join(
        f'<span><i class="{in_html(state)}"></i>{in_html(state)} {in_html(_length(at, to))}</span>'
        for state, at, to in spans
    )
    return (
        f'<svg class="line" role="img" aria-label="{in_html(names)}" '
        f'viewBox="0 0 {_LINE} 16" preserveAspectRatio="none">{drawn}</svg>'
        f'<p class="legend muted">{legend}</p>'
    )


def _length(at: datetime, to: datetime) -> str:
    return duration((to - at).total_seconds()) if to > at else ""


def _spans(moves: Sequence[Transition], now: datetime) -> list[tuple[str, datetime, datetime]]:
    """Return the states of an item, each with its begin and its end."""
    known = [(move.state, move.at) for move in moves]
    ends = [at for _, at in known[1:]]
    if known:
        ends.append(known[-1][1] if known[-1][0] in _ENDS else max(now, known[-1][1]))
    return [(state, at, to) for (state, at), to in zip(known, ends, strict=True)]


def _span(one: tuple[str, datetime, datetime], first: datetime, whole: float) -> str:
    state, at, to = one
    room = _LINE - _LEAST
    x = room * (at - first).total_seconds() / whole
    wide = max(_LEAST, room * (to - at).total_seconds() / whole)
    title = in_html(f"{state} {_length(at, to)}".strip())
    return (
        f'<rect class="{in_html(state)}" x="{x:.1f}" y="0" width="{wide:.1f}" '
        f'height="16"><title>{title}</title></rect>'
    )
