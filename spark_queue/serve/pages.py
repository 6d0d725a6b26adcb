"""Pages as documents: their templates, their files, and their addresses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from spark_queue.flow_forms import FLOW
from spark_queue.report import page, panel_tables
from spark_queue.report.following import Shared, id_of
from spark_queue.report.lines import Tenant
from spark_queue.report.model import Report
from spark_queue.report.panel_tables import Buttons, Links
from spark_queue.report.sheets import Sheet
from spark_queue.serve.watching import WatchedQueue
from spark_queue.wording import visible

#: Signs that are shown of a value in a list.
_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page: the name of its template, and the template's values."""

    template: str
    values: Mapping[str, Any]

    def html(self, **more: Any) -> str:
        """Return the page as a document; every text except our markup is escaped."""
        common = {"every": None, "said": "", "error": "", "trail": (), "base": "", "scripts": ()}
        return _templates().get_template(self.template).render({**common, **self.values, **more})


_SCRIPT = "text/javascript"

#: The files that are served, and what they are.
FILES = {
    "style.css": "text/css",
    "icon.svg": "image/svg+xml",
    "theme.js": _SCRIPT,
    "live.js": _SCRIPT,
    "sort.js": _SCRIPT,
    "copy.js": _SCRIPT,
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
    """Return the style of all pages: the report's, and more."""
    return page.style() + static("more.css")


@cache
def static(name: str) -> str:
    """Return the text of a static file."""
    file = resources.files(__package__).joinpath("static", *name.split("/"))
    return file.read_text(encoding="utf-8")


def wrong(title: str, why: str) -> Page:
    """Return a page with an error."""
    return Page(template="wrong.html", values={"title": title, "error": why})


def panels(
    title: str,
    head: str,
    parts: Sequence[str],
    actions: Sequence[tuple[str, str]],
    **more: Any,
) -> Page:
    """Return a page of panels, whose texts are escaped already."""
    values = {
        "title": title,
        "head": as_markup(head),
        "parts": [as_markup(part) for part in parts],
        "actions": actions,
        **more,
    }
    return Page(template="panels.html", values=values)


def as_markup(text: str) -> Markup:
    """Return HTML that a template does not escape."""
    # Texts of a report are escaped where it is made HTML.
    return Markup(text)  # noqa: S704 - see above


def trail_of(seat: WatchedQueue, base: str) -> Sequence[tuple[str, str]]:
    """Return the way back to the page of a queue."""
    return ((seat.name, base),)


def sample(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Return rows of a dry run as a table."""
    if not rows:
        return Markup()
    heads = tuple((name, "fold") for name in rows[0])
    texts = tuple(tuple(clip(value) for value in row.values()) for row in rows)
    sheet = Sheet(name="sample", title="The first of them", heads=heads, rows=texts)
    return as_markup(f"<h2>{sheet.title}</h2>{panel_tables.table(sheet)}")


def clip(value: object) -> str:
    """Return a value in as few signs as a line has room for."""
    text = "(none)" if value is None else visible(str(value))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def base_of(number: int, reader: str | None = None) -> str:
    """Return where the pages of a queue begin, as one of its readers sees it."""
    return f"/queues/{number}" + ("" if reader is None else f"@{quote(reader, safe='')}")


def link_item(base: str, seq: int) -> str:
    """Return the page of an item."""
    return f"{base}/items/{seq}"


def link_shared(base: str, by: Shared, text: str | None) -> str:
    """Return the page of a tenant, a group, an error or a worker."""
    return f"{base}/{by}s/{id_of(text)}"


def find(base: str, /, **fields: str) -> str:
    """Return the page of the items that are like that."""
    return f"{base}/items?{query(**fields)}"


def act(base: str, verb: str, /, **fields: str) -> str:
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
        ("workers", "worker"): lambda line: _worker(base, line.worker_id),
        ("groups", "item"): lambda line: [link_item(base, line.head)],
        ("readers", "reader"): lambda line: [] if line.streams else [base_of(number, line.reader)],
    }

    def links(sheet: str, row: int, head: str) -> Sequence[str]:
        lead = leads.get((sheet, head))
        lines = getattr(report, sheet) if lead else ()
        # The last line of a panel may sum up the rest.
        return lead(lines[row]) if lead and row < len(lines) else ()

    return links


def _worker(base: str, worker_id: str | None) -> Sequence[str]:
    """Return the page of a worker, if it has a name."""
    return [] if worker_id is None else [link_shared(base, "worker", worker_id)]


def of_items(base: str, seqs: Sequence[int]) -> Links:
    """Return where the cells of a list of items lead."""
    return lambda _sheet, row, head: [link_item(base, seqs[row])] if head == "item" else ()


def row_buttons(base: str, report: Report, verbs: Collection[str]) -> Buttons:
    """Return the buttons of rows: to undo operators' steps, and to hold and free tenants."""

    def buttons(sheet: str, row: int) -> Sequence[tuple[str, str]]:
        if sheet == "tenants":
            return tenant_buttons(report.tenants[row])
        step = report.steps[row] if sheet == "steps" else None
        if step is None or not step.undo or "undo" not in verbs:
            return ()
        return [(f"Undo {step.step}", act(base, "undo", step=str(step.step)))]

    def tenant_buttons(one: Tenant) -> Sequence[tuple[str, str]]:
        if one.fair_key is None:
            return []
        verb = "resume" if one.is_paused else "pause"
        offers = (verb, *(form.verb for form in FLOW.values()))
        return [
            (f"{name.capitalize()} …", act(base, name, key=one.fair_key))
            for name in offers
            if name in verbs
        ]

    return buttons


def query(**fields: str) -> str:
    """Return fields as an address has them."""
    return urlencode(fields)
