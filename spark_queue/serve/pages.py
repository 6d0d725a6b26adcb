"""Pages as documents: their templates and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from spark_queue.report import page, panel_tables
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
