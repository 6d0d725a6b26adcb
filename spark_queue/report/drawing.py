"""Drawings of a report without a script: lines in SVG, and the flow of items with its scales."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from spark_queue.report.lines import FlowPoint
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


#: What is drawn: its name, and what of a point it is. The last has a scale of its own.
_SERIES = (("enqueued", "entered"), ("acked", "done"), ("failed", "failed"), ("open", "items"))

#: The drawing, in units of its own, which is stretched to the room that there is.
_FLOW_WIDTH, _FLOW_HEIGHT = 600, 200

#: Parts that are drawn at least.
_FEWEST = 10

#: Parts of an axis, and items that one of them may be: such a number, or ten times it, and so on.
_PARTS = 4
_STEPS = (1, 2, 3, 4, 5, 6, 8)


def draw_flow(points: Sequence[FlowPoint], window: timedelta) -> str:
    """Draw the items enqueued, acked and failed in each part of a window, and the open ones.

    It begins with the first part in which there was anything.

    Parameters
    ----------
    points : sequence of FlowPoint
        The parts, the oldest first.
    """
    part = window / len(points)
    points = _since_first(points)
    whole = part * len(points)
    title = f"What came and went in {lasting(whole.total_seconds())}"
    drawn = [[getattr(point, name) for point in points] for _, name in _SERIES]
    if not any(map(any, drawn)):
        calm = "nothing came or went, and nothing was open"
        return f'<div><h3>{in_html(title)}</h3><p class="empty">{calm}</p></div>'
    flow, items = _top(max(map(max, drawn[:-1]))), _top(max(drawn[-1]))
    lines = "".join(
        _line(name, values, items if name == "open" else flow)
        for (name, _), values in zip(_SERIES, drawn, strict=True)
    )
    said = [f"{sum(values):,} {name}" for (name, _), values in zip(_SERIES, drawn, strict=True)]
    said[-1] = f"{drawn[-1][-1]:,} open now"
    unit = f"items in {lasting(part.total_seconds())}"
    name = in_html(f"{title}: {', '.join(said)}")
    return (
        f'<div class="flow"><h3>{in_html(title)}</h3>{_legend(said)}'
        f'<p class="units muted"><span>{in_html(unit)}</span><span>open items</span></p>'
        f'<div class="axes">{_ticks(flow)}<svg role="img" aria-label="{name}" '
        f'viewBox="0 0 {_FLOW_WIDTH} {_FLOW_HEIGHT}" preserveAspectRatio="none">'
        f"{_grid()}{lines}{_tips(points)}</svg>{_ticks(items)}"
        f"{_instants(points[0].at, whole)}</div></div>"
    )


def _since_first(points: Sequence[FlowPoint]) -> Sequence[FlowPoint]:
    """Return the parts from the first on in which there was anything, and some more of few."""
    first = next((n for n, one in enumerate(points) if one.items or one.entered or one.failed), 0)
    return points[min(first, len(points) - _FEWEST) :]


def _top(most: int) -> int:
    """Return the end of an axis: a whole number for each of its parts."""
    power = 1
    while True:
        for step in _STEPS:
            if step * power * _PARTS >= most:
                return step * power * _PARTS
        power *= 10


def _line(name: str, values: Sequence[int], top: int) -> str:
    wide = _FLOW_WIDTH / len(values)
    points = " L".join(
        f"{(at + 0.5) * wide:.1f},{_FLOW_HEIGHT * (1 - value / top):.1f}"
        for at, value in enumerate(values)
    )
    return f'<path class="{name}" d="M{points}"/>'


def _grid() -> str:
    heights = (_FLOW_HEIGHT * at / _PARTS for at in range(_PARTS + 1))
    return "".join(f'<line x1="0" y1="{y:.0f}" x2="{_FLOW_WIDTH}" y2="{y:.0f}"/>' for y in heights)


def _tips(points: Sequence[FlowPoint]) -> str:
    """Return the tips under the pointer, a part of the width for each point."""
    wide = _FLOW_WIDTH / len(points)
    return "".join(
        f'<rect class="part" x="{at * wide:.1f}" width="{wide:.1f}" height="{_FLOW_HEIGHT}">'
        f"<title>{in_html(_tip(point))}</title></rect>"
        for at, point in enumerate(points)
    )


def _tip(point: FlowPoint) -> str:
    counts = (f"{name} {getattr(point, of):,}" for name, of in _SERIES)
    return f"{point.at:%H:%M:%S}Z: {', '.join(counts)}"


def _legend(said: Iterable[str]) -> str:
    names = (name for name, _ in _SERIES)
    marks = (
        f'<span><i class="{name}"></i>{in_html(text)}</span>'
        for name, text in zip(names, said, strict=True)
    )
    return f'<p class="legend">{"".join(marks)}</p>'


def _ticks(top: int) -> str:
    values = (top * at // _PARTS for at in range(_PARTS, -1, -1))
    return f'<div class="ticks">{"".join(f"<span>{value:,}</span>" for value in values)}</div>'


def _instants(begin: datetime, window: timedelta) -> str:
    instants = (begin + window * at / _PARTS for at in range(_PARTS + 1))
    form = "%b %d" if window >= timedelta(days=2) else "%H:%M"
    marks = "".join(f"<span>{at:{form}}</span>" for at in instants)
    return f'<div class="times">{marks}</div><p class="utc muted">UTC</p>'
