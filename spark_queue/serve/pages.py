"""Contents of the pages: a report's panels, linked to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from spark_queue.delta.tables.facts import logger
from spark_queue.errors import SparkQueueError
from spark_queue.report import page, sheets
from spark_queue.report.model import ErrorGroup, ItemLine, Report, SharedReport
from spark_queue.report.page import Links
from spark_queue.report.reading import Shared
from spark_queue.report.sheets import Sheet
from spark_queue.report.view_texts import id_of, redrive_where
from spark_queue.serve.watching import LISTED, Board, WatchedQueue
from spark_queue.wording import duration, line_of, visible


def base_of(number: int, reader: str | None = None) -> str:
    """Return where the pages of a queue begin, as one of its readers sees it."""
    return f"/queues/{number}" + ("" if reader is None else f"@{quote(reader, safe='')}")


def link_item(base: str, seq: int) -> str:
    """Return the page of an item."""
    return f"{base}/items/{seq}"


def link_shared(base: str, by: Shared, text: str | None) -> str:
    """Return the page of a tenant, a group or an error."""
    return f"{base}/{by}s/{id_of(text)}"


def act(base: str, verb: str, **fields: str) -> str:
    """Return the form of an action, with some of its fields filled in."""
    return f"{base}/act/{verb}" + (f"?{query(**fields)}" if fields else "")


def of_report(base: str, number: int, report: Report) -> Links:
    """Return where the cells of a report's panels lead."""
    leads: Mapping[tuple[str, str], Callable[[Any], Sequence[str]]] = {
        ("errors", "error"): lambda line: [link_shared(base, "error", line.wording)],
        ("errors", "such as"): lambda line: [link_item(base, seq) for seq in line.samples],
        ("tenants", "tenant"): lambda line: (
            [] if line.idle else [link_shared(base, "tenant", line.fair_key)]
        ),
        ("groups", "group"): lambda line: [link_shared(base, "group", line.group_key)],
        ("groups", "item"): lambda line: [link_item(base, line.head)],
        ("readers", "reader"): lambda line: [] if line.streams else [base_of(number, line.reader)],
    }

    def links(sheet: str, row: int, head: str) -> Sequence[str]:
        lead = leads.get((sheet, head))
        lines = getattr(report, sheet) if lead else ()
        # The last line of a panel may sum up what is not listed.
        return lead(lines[row]) if lead and row < len(lines) else ()

    return links


def of_items(base: str, seqs: Sequence[int]) -> Links:
    """Return where the cells of a list of items lead."""
    return lambda _sheet, row, head: [link_item(base, seqs[row])] if head == "item" else ()


def query(**fields: str) -> str:
    """Return fields as an address has them."""
    return urlencode(fields)


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
        common = {"every": None, "said": "", "error": "", "trail": ()}
        return _templates().get_template(self.template).render({**common, **self.values, **more})


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
    return page.STYLE + static("more.css")


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
    line = {"name": seat.name, "href": base_of(seat.number), "error": "", "note": ""}
    try:
        report = seat.report(most_age)
    except (SparkQueueError, OSError) as exc:
        # The others are shown nevertheless.
        return {**line, "error": str(exc)}
    except Exception as exc:  # noqa: BLE001 - an error of one queue stops no other
        logger.exception("%s: cannot be shown", seat.name)
        return {**line, "error": line_of(exc) or type(exc).__name__}
    seen = report.overview
    return {
        **line,
        "ready": f"{seen.ready:,}",
        "claimed": f"{seen.claimed:,}",
        "dead": f"{seen.dead:,}",
        "failing": f"{sum(one.in_window for one in report.errors):,}",
        "oldest": duration(seen.oldest_age),
        "note": "PAUSED" if report.paused else "",
    }


def queue(seat: WatchedQueue, base: str, most_age: float, verbs: Sequence[str]) -> Page:
    """Return the page of a queue, with links to the forms of some actions."""
    report = seat.report(most_age)
    parts = [page.panels(report, of_report(base, seat.number, report))]
    actions = [(verb, act(base, verb)) for verb in verbs]
    return _panels(sheets.headline(report), parts, actions)


def item(seat: WatchedQueue, base: str, seq: int, most_age: float) -> Page | None:
    """Return the page of an item; ``None`` where there is none."""
    found = seat.item(seq, most_age)
    if not found.history:
        return None
    parts = [page.item_panels(found, lambda other: link_item(base, other) if other != seq else "")]
    return _panels(f"Item {seq} of {sheets.headline(found)}", parts, (), _trail(seat, base))


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
    parts.append(page.table(items, of_items(base, [line.seq for line in lines])))
    actions = list(_redrive(base, about)) if "redrive" in verbs else []
    title = f"{called} {_clip(name)} of {sheets.headline(report)}"
    return _panels(title, parts, actions, _trail(seat, base))


def _name_of(by: Shared, line: ItemLine) -> str | None:
    """Return what items share that no line of the panel is about: it names a hundred."""
    names = {"error": line.error, "tenant": line.fair_key, "group": line.group_key}
    return names[by]


def _about(report: SharedReport, panel: str) -> Iterator[str]:
    if report.about:
        yield page.table(sheets.panel(panel, report.about, report.as_of))


def _sample(about: object) -> Iterator[Markup]:
    if isinstance(about, ErrorGroup):
        yield Markup("<h2>As it was last</h2><pre>{}</pre>").format(
            visible(about.sample, lines=True)
        )
        if about.redrive:
            yield Markup("<h2>To enqueue its dead items again</h2><code>{}</code>").format(
                about.redrive
            )


def _redrive(base: str, about: object) -> Iterator[tuple[str, str]]:
    if isinstance(about, ErrorGroup) and about.redrive:
        filled = act(base, "redrive", where=redrive_where(about.wording))
        yield f"redrive its {about.dead:,} dead", filled


def _panels(
    title: str,
    parts: Sequence[str],
    actions: Sequence[tuple[str, str]],
    trail: Sequence[tuple[str, str]] = (),
) -> Page:
    # Texts of a report are escaped where it is made HTML.
    marked = [Markup(part) for part in parts]  # noqa: S704 - see above
    values = {"title": title, "parts": marked, "actions": actions, "trail": trail}
    return Page(template="panels.html", values=values)


def _trail(seat: WatchedQueue, base: str) -> Sequence[tuple[str, str]]:
    return ((seat.name, base),)


def sample(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Return rows of a dry run as a table."""
    if not rows:
        return Markup()
    heads = tuple((name, "fold") for name in rows[0])
    texts = tuple(tuple(_clip(value) for value in row.values()) for row in rows)
    sheet = Sheet(name="sample", title="The first of them", heads=heads, rows=texts)
    return Markup(page.table(sheet))  # noqa: S704 - escaped there


def _clip(value: object) -> str:
    text = "(none)" if value is None else visible(str(value))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
