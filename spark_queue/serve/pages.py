"""Contents of the pages: a report's panels, linked to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from spark_queue.delta.tables.facts import logger
from spark_queue.errors import SparkQueueError
from spark_queue.report import page, panel_tables, sheets
from spark_queue.report.condition import judge_condition
from spark_queue.report.model import ErrorGroup, ItemLine, SharedReport
from spark_queue.report.reading import Shared
from spark_queue.report.sheets import Sheet
from spark_queue.report.view_texts import redrive_where
from spark_queue.serve.addresses import act, base_of, link_item, of_items, of_report
from spark_queue.serve.watching import LISTED, Board, WatchedQueue
from spark_queue.wording import duration, line_of, visible

#: Signs that are shown of a value in a list.
_LONGEST = 200

#: What a page is about, where it is about what items share, and how a line of its panel names it.
_CALLED: Mapping[Shared, tuple[str, Callable[[Any], str | None]]] = {
    "error": ("Error", lambda line: line.wording),
    "tenant": ("Tenant", lambda line: line.fair_key),
    "group": ("Group", lambda line: line.group_key),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a page shows: the name of its template, and what is put into it."""

    template: str
    values: Mapping[str, Any]

    def html(self, **more: Any) -> str:
        """Return it as a document; every text that is no markup of ours is escaped."""
        common = {"every": None, "said": "", "error": "", "trail": (), "base": "", "scripts": ()}
        return _templates().get_template(self.template).render({**common, **self.values, **more})


_SCRIPT = "text/javascript"

#: The files that are served, and what they are.
FILES = {
    "style.css": "text/css",
    "icon.svg": "image/svg+xml",
    "theme.js": _SCRIPT,
    "live.js": _SCRIPT,
}


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        # What is markup already is so with its texts escaped; values of forms are, by the filter e.
        finalize=lambda value: visible(value, lines=True) if type(value) is str else value,
    )


@cache
def style() -> str:
    """Return the style of all pages: that of a report, and of what is around it."""
    return page.style() + static("more.css")


@cache
def static(name: str) -> str:
    """Return a file as it is."""
    folder = resources.files(__package__) / "static"
    return (folder / name).read_text(encoding="utf-8")


def wrong(title: str, why: str) -> Page:
    """Return a page that says what is wrong."""
    return Page(template="wrong.html", values={"title": title, "error": why})


def board(seats: Board, most_age: float) -> Page:
    """Return the page of all queues."""
    lines = [_line(seat, most_age) for seat in seats]
    return Page(template="board.html", values={"title": "Queues", "queues": lines})


def _line(seat: WatchedQueue, most_age: float) -> Mapping[str, Any]:
    line = {"name": seat.name, "href": base_of(seat.number), "error": ""}
    try:
        report = seat.report(most_age)
    except (SparkQueueError, OSError) as exc:
        # The others are shown nevertheless.
        return {**line, "error": str(exc), "state": _marked(panel_tables.pill("ERROR"))}
    except Exception as exc:  # noqa: BLE001 - an error of one queue stops no other
        logger.exception("%s: cannot be shown", seat.name)
        why = line_of(exc) or type(exc).__name__
        return {**line, "error": why, "state": _marked(panel_tables.pill("ERROR"))}
    seen = report.overview
    return {
        **line,
        "state": _marked(panel_tables.pill(judge_condition(report).word)),
        "ready": f"{seen.ready:,}",
        "claimed": f"{seen.claimed:,}",
        "dead": f"{seen.dead:,}",
        "failing": f"{sum(one.in_window for one in report.errors):,}",
        "oldest": duration(seen.oldest_age),
    }


def queue(seat: WatchedQueue, base: str, most_age: float, verbs: Sequence[str]) -> Page:
    """Return the page of a queue, with links to the forms of some actions."""
    report = seat.report(most_age)
    sections = page.sections(report, of_report(base, seat.number, report))
    parts = [page.navigation(sections), page.join(sections)]
    actions = [(verb, act(base, verb)) for verb in verbs]
    return _panels(sheets.headline(report), page.banner(report), parts, actions)


def item(seat: WatchedQueue, base: str, seq: int, most_age: float) -> Page | None:
    """Return the page of an item; ``None`` where there is none."""
    found = seat.item(seq, most_age)
    if not found.history:
        return None
    parts = [page.item_panels(found, lambda other: link_item(base, other) if other != seq else "")]
    title = f"Item {seq}"
    head = page.head(title, page.item_state(found), found)
    return _panels(f"{title} of {sheets.headline(found)}", head, parts, (), _trail(seat, base))


def shared_page(
    seat: WatchedQueue, base: str, by: Shared, digest: str, most_age: float, verbs: Sequence[str]
) -> Page | None:
    """Return the page of a tenant, a group or an error; ``None`` where there is none."""
    report = seat.items(by, digest, most_age)
    lines, more = report.items[:LISTED], len(report.items) > LISTED
    if not report.about and not lines:
        return None
    called, text_of = _CALLED[by]
    about = report.about[0] if report.about else None
    name = _name_of(by, lines[0]) if about is None else text_of(about)
    parts = [*_about(report, f"{by}s"), *_sample(about)]
    items = sheets.items(lines, report.as_of, more=more)
    listed = panel_tables.table(items, of_items(base, [line.seq for line in lines]))
    parts.append(page.section(items.title, listed))
    actions = list(_redrive(base, about)) if "redrive" in verbs else []
    title = f"{called} {_clip(name)}"
    head = page.head(title, "", report)
    full = f"{title} of {sheets.headline(report)}"
    return _panels(full, head, parts, actions, _trail(seat, base))


def _name_of(by: Shared, line: ItemLine) -> str | None:
    """Return what items share that no line of the panel is about: it names a hundred."""
    names = {"error": line.error, "tenant": line.fair_key, "group": line.group_key}
    return names[by]


def _about(report: SharedReport, panel: str) -> Iterator[str]:
    if report.about:
        sheet = sheets.panel(panel, report.about, report.as_of)
        yield page.section(sheet.title, panel_tables.table(sheet))


def _sample(about: object) -> Iterator[str]:
    if isinstance(about, ErrorGroup):
        text = Markup("<pre>{}</pre>").format(visible(about.sample, lines=True))
        yield page.section("As it was last", text)
        if about.redrive:
            command = Markup("<code>{}</code>").format(about.redrive)
            yield page.section("To enqueue its dead items again", command)


def _redrive(base: str, about: object) -> Iterator[tuple[str, str]]:
    if isinstance(about, ErrorGroup) and about.redrive:
        filled = act(base, "redrive", where=redrive_where(about.wording))
        yield f"redrive its {about.dead:,} dead", filled


def _panels(
    title: str,
    head: str,
    parts: Sequence[str],
    actions: Sequence[tuple[str, str]],
    trail: Sequence[tuple[str, str]] = (),
) -> Page:
    values = {
        "title": title,
        "head": _marked(head),
        "parts": [_marked(part) for part in parts],
        "actions": actions,
        "trail": trail,
    }
    return Page(template="panels.html", values=values)


def _marked(text: str) -> Markup:
    # Texts of a report are escaped where it is made HTML.
    return Markup(text)  # noqa: S704 - see above


def _trail(seat: WatchedQueue, base: str) -> Sequence[tuple[str, str]]:
    return ((seat.name, base),)


def sample(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Return rows of a dry run as a table."""
    if not rows:
        return Markup()
    heads = tuple((name, "fold") for name in rows[0])
    texts = tuple(tuple(_clip(value) for value in row.values()) for row in rows)
    sheet = Sheet(name="sample", title="The first of them", heads=heads, rows=texts)
    return _marked(page.section(sheet.title, panel_tables.table(sheet)))


def _clip(value: object) -> str:
    text = "(none)" if value is None else visible(str(value))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
