"""Chart of enqueued and ended items over a stretch of time, as SVG without a script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from spark_queue.report.lines import FlowPoint
from spark_queue.wording import in_html, lasting

#: What is drawn: its name, and what of a point it is. The last has a scale of its own.
_SERIES = (("enqueued", "entered"), ("acked", "done"), ("failed", "failed"), ("open", "items"))

#: The drawing, in units of its own, which is stretched to the room that there is.
_WIDTH, _HEIGHT = 600, 200

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
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none">'
        f"{_grid()}{lines}{_tips(points)}</svg>{_ticks(items)}"
        f"{_times(points[0].at, whole)}</div></div>"
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
    wide = _WIDTH / len(values)
    points = " L".join(
        f"{(at + 0.5) * wide:.1f},{_HEIGHT * (1 - value / top):.1f}"
        for at, value in enumerate(values)
    )
    return f'<path class="{name}" d="M{points}"/>'


def _grid() -> str:
    heights = (_HEIGHT * at / _PARTS for at in range(_PARTS + 1))
    return "".join(f'<line x1="0" y1="{y:.0f}" x2="{_WIDTH}" y2="{y:.0f}"/>' for y in heights)


def _tips(points: Sequence[FlowPoint]) -> str:
    """Return the tips under the pointer, a part of the width for each point."""
    wide = _WIDTH / len(points)
    return "".join(
        f'<rect class="part" x="{at * wide:.1f}" width="{wide:.1f}" height="{_HEIGHT}">'
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


def _times(begin: datetime, window: timedelta) -> str:
    instants = (begin + window * at / _PARTS for at in range(_PARTS + 1))
    form = "%b %d" if window >= timedelta(days=2) else "%H:%M"
    marks = "".join(f"<span>{at:{form}}</span>" for at in instants)
    return f'<div class="times">{marks}</div><p class="utc muted">UTC</p>'
