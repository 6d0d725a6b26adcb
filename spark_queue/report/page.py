"""A report as HTML: one text that needs no network, whose every word is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Literal

from spark_queue.report import commands, condition, drawing, panel_tables, reading, sheets
from spark_queue.report.condition import judge_condition
from spark_queue.report.finding import Finding
from spark_queue.report.lines import FlowPoint, Overview
from spark_queue.report.model import ItemReport, Report, SharedReport, Vitals
from spark_queue.report.panel_tables import Buttons, Links, link, no_buttons, no_links, table
from spark_queue.report.sheets import Sheet
from spark_queue.wording import duration, in_html, instant, lasting

if TYPE_CHECKING:
    from spark_queue.state.store import Store

#: What a page may load: nothing. Its style is in it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

#: What the tiles say already of what the overview has.
_IN_TILES = frozenset({"claimed", "dead", "enqueued", "done in"})

#: The seconds of a day, which the plot of open items shows.
_DAY = 86_400.0


@cache
def style() -> str:
    """Return how all parts look."""
    return (resources.files(__package__) / "look.css").read_text(encoding="utf-8")


def page(report: Report) -> str:
    """Return a whole document, to be written to a file or shown by a browser."""
    return _document(sheets.headline(report), fragment(report))


def item_page(item: ItemReport) -> str:
    """Return a whole document about one item."""
    return _document(f"item {item.seq} of {sheets.headline(item)}", item_fragment(item))


def fragment(report: Report) -> str:
    """Return the HTML that a notebook shows."""
    parts = sections(report)
    return _add_style(banner(report) + navigation(parts) + join(parts))


def glance(seen: Vitals) -> str:
    """Return the HTML that a notebook shows of a queue: its condition and its items."""
    return _add_style(banner(seen) + draw_tiles(seen) + table(sheets.overview(seen)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page that its navigation leads to."""

    id: str
    title: str
    body: str
    count: int = 0
    """How many lines it has."""


def sections(
    report: Report,
    links: Links = no_links,
    buttons: Buttons = no_buttons,
    chart: str | None = None,
) -> list[Section]:
    """Return the panels of a report, without their style.

    Parameters
    ----------
    chart : str, optional
        Markup in the place of the plots.
    """
    overview, *others = sheets.sheets(report)
    drawn = plots(report) if chart is None else chart
    rest = tuple(row for row in overview.rows if row[0] not in _IN_TILES)
    places = table(replace(overview, rows=rest), links)
    below = {"errors": sheets.redrives(report), "steps": sheets.undos(report)}
    body = f'<section id="overview"><h2>Overview</h2>{drawn}{places}</section>'
    found = [Section(id="overview", title="Overview", body=draw_tiles(report) + body)]
    if report.overview.is_unused:
        found = [Section(id="first", title="First item", body=_first_item(report))]
    for sheet in others:
        codes = "".join(f"<code>{in_html(one)}</code>" for one in below.get(sheet.name, ()))
        shown = table(sheet, links, buttons) + codes
        found.append(_section(sheet, shown))
    return found


def _first_item(report: Report) -> str:
    """Say of a queue without an item how the first one gets in."""
    columns, *ways = map(in_html, commands.first_item(report))
    codes = "".join(f"<code>{one}</code>" for one in ways)
    return section("No item has entered yet", f"<p>{columns}</p>{codes}", "first")


def _section(sheet: Sheet, body: str) -> Section:
    marked = section(sheet.title, body, sheet.name, is_empty=not sheet.rows)
    return Section(id=sheet.name, title=sheet.title, body=marked, count=len(sheet.rows))


def section(title: str, body: str, name: str = "", *, is_empty: bool = False) -> str:
    """Return a part of a page with its title; an empty one is a line."""
    known = f' id="{in_html(name)}"' if name else ""
    known += ' class="quiet"' if is_empty else ""
    return f"<section{known}><h2>{in_html(title)}</h2>{body}</section>"


def join(parts: Iterable[Section]) -> str:
    """Return the bodies of sections, one after the other."""
    return "".join(part.body for part in parts)


def navigation(parts: Iterable[Section]) -> str:
    """Return links to the sections of a page."""
    links = "".join(
        f'<a href="#{part.id}">{in_html(part.title)}'
        + (f" <small>{part.count:,}</small>" if part.count else "")
        + "</a>"
        for part in parts
    )
    return f'<nav class="sections" aria-label="Sections">{links}</nav>'


def banner(report: Vitals, title: str | None = None, others: Iterable[Finding] = ()) -> str:
    """Return the head of a page: its subject, condition and time.

    Parameters
    ----------
    others : iterable of Finding
        What a checkup found of the tables of the queue.
    """
    seen = judge_condition(report, others)
    state = f"{panel_tables.pill(seen.word)} <span>{in_html(seen.why)}</span>"
    state += "".join(f"<p>{in_html(line)}</p>" for line in condition.kept_back(report))
    return head(title or report.queue, state, report)


def head(title: str, state: str, of: Vitals | ItemReport | SharedReport) -> str:
    """Return the head of a page: its title, a state, and of when it is."""
    reader = f"as reader {of.reader!r} sees it, " if of.reader else ""
    when = in_html(f"{reader}{instant(of.as_of)}")
    return (
        f'<header class="head"><h1>{in_html(title)}</h1>{state}'
        f'<p class="muted as-of">{when}</p></header>'
    )


def plots(
    report: Report, flow: Sequence[FlowPoint] | None = None, window: timedelta | None = None
) -> str:
    """Return the chart of a report's window, or of other points and theirs, and other plots."""
    drawn = drawing.draw_flow(report.flow if flow is None else flow, window or report.window)
    return f'<div class="plots">{drawn}{"".join(_plots(report))}</div>'


def _plots(report: Report) -> Iterable[str]:
    window = report.window.total_seconds()
    yield drawing.bars("Open items", "open", [point.items for point in report.depth], _DAY)
    again = [point.claimed_again for point in report.retries]
    if any(again):
        yield drawing.bars("Claimed again", f"in {lasting(window / 60)}", again, window)


def item_fragment(item: ItemReport) -> str:
    """Return the HTML that a notebook shows of one item."""
    first = head(f"Item {item.seq} of {item.queue}", item_state(item), item)
    return _add_style(first + item_panels(item))


def item_state(item: ItemReport) -> str:
    """Return where an item is, as a pill."""
    return panel_tables.pill(item.history[-1].state if item.history else "ready")


def item_panels(item: ItemReport, lead: Callable[[int], str] = lambda _seq: "") -> str:
    """Return the panels of an item, without style; other items are links."""
    why = "".join(
        f"<li>{_item_link(one.seq, lead)}: {in_html(one.detail)}</li>" for one in item.chain
    )
    chain = f'<p><b>{in_html(item.text)}</b></p><ol class="chain">{why}</ol>'
    chain += f"<p>{in_html(str(item.place))}</p>" if item.place else ""
    line = drawing.time_line(item.history, item.as_of) + table(sheets.history(item))
    parts: Mapping[str, str] = {
        "Why it is where it is": chain,
        "Time line": line,
        "What it is": table(sheets.entry(item)),
    }
    return "".join(section(title, body) for title, body in parts.items())


def _item_link(seq: int, lead: Callable[[int], str]) -> str:
    return link(f"item {seq}", [lead(seq)] if lead(seq) else [])


def _document(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{in_html(title)}</title><style>{_AROUND}</style></head><body><main>{body}</main></body></html>"
    )


#: What a document has around what a notebook shows.
_AROUND = "body{margin:0}.sq{min-height:100vh;padding:16px max(16px,50vw - 600px)}"


def _add_style(body: str) -> str:
    return f'<style>{style()}</style><div class="sq">{body}</div>'


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
    seen, within = report.overview, condition.window_text(report)
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
            note=_speed(seen.enqueued_per_second, seen.enqueued_per_second_now),
        ),
        Tile(
            label=f"acked in {within}",
            value=f"{seen.done_in_window:,}",
            note=_speed(seen.done_per_second, seen.done_per_second_now),
            tone="good" if seen.done_in_window else "",
        ),
        Tile(label="done in", value=_time_left(seen), note=_pace(seen)),
    )


def _waiting(seen: Overview, held: int) -> str:
    parts = [f"{held:,} of them may not run yet"] if held else []
    if seen.oldest_age is not None:
        parts.append(f"the oldest has waited {duration(seen.oldest_age)}")
    parts += condition.fewer_start(seen)
    return ", ".join(parts)


def rate(per_second: float | None) -> str:
    """Say how many come or go, in the unit of which there is one."""
    if not per_second:
        return ""
    for seconds, unit in ((1, "s"), (60, "min"), (3_600, "h")):
        if per_second * seconds >= 1:
            return f"{per_second * seconds:,.1f} / {unit}"
    return f"{per_second * 86_400:,.1f} / d"


def _speed(within: float | None, now: float | None) -> str:
    """Say how many come or go, and how many do now."""
    mean, newest = rate(within), rate(now) or "none"
    return f"{mean}, now {newest}" if mean else ""


def _time_left(seen: Overview) -> str:
    values = {"done": "now", "rises": "never", "stays": "unknown"}
    return values.get(seen.trend) or duration(seen.time_left)


def _pace(seen: Overview) -> str:
    notes = {"done": "nothing is open", "rises": "open items rise", "stays": "nothing ends"}
    return notes.get(seen.trend) or condition.time_range(seen)


def draw_tiles(report: Vitals) -> str:
    """Return the numbers as HTML."""
    drawn = "".join(
        f'<div class="tile {one.tone}"><span>{in_html(one.label)}</span><b>{in_html(one.value)}</b>'
        f"<small>{in_html(one.note)}</small></div>"
        for one in tiles(report)
    )
    return f'<div class="tiles">{drawn}</div>'


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
        return glance(reading.read_vitals(store))
    told = (f"{count:,} {state}" for state, count in counts().items() if count)
    return f"<b>{name}</b>: {', '.join(told)}"
