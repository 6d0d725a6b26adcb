"""Pages of items: one item, items that share a fault, and search."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from markupsafe import Markup

from spark_queue.report import page, panel_tables, sheets
from spark_queue.report.commands import redrive_where
from spark_queue.report.following import STATES, Shared, Wanted
from spark_queue.report.lines import ErrorGroup, ItemLine
from spark_queue.report.model import ItemReport, SharedReport
from spark_queue.serve import pages
from spark_queue.serve.pages import Page, act, find, link_item, of_items
from spark_queue.serve.watching import LISTED, WatchedQueue
from spark_queue.wording import in_html, visible

#: What a page is about, where it is about what items share, and how a line of its panel names it.
_CALLED: Mapping[Shared, tuple[str, Callable[[Any], str | None]]] = {
    "error": ("Error", lambda line: line.wording),
    "tenant": ("Tenant", lambda line: line.fair_key),
    "group": ("Group", lambda line: line.group_key),
    "worker": ("Worker", lambda line: line.worker_id),
}

#: What may be done about an item, by its state.
_APPLIES = {
    "cancel": ("ready", "claimed"),
    "redrive": ("dead", "expired", "cancelled"),
}


def item(
    seat: WatchedQueue, base: str, seq: int, most_age: float, verbs: Collection[str]
) -> Page | None:
    """Return the page of an item; ``None`` where there is none."""
    found = seat.item(seq, most_age)
    if not found.history:
        return None
    parts = [page.item_panels(found, lambda other: link_item(base, other) if other != seq else "")]
    title = f"Item {seq}"
    head = page.head(title, page.item_state(found), found)
    full = f"{title} of {sheets.headline(found)}"
    actions = list(_of_item(base, found, verbs))
    return pages.panels(full, head, parts, actions, trail=pages.trail_of(seat, base), base=base)


def _of_item(base: str, found: ItemReport, verbs: Collection[str]) -> Iterator[tuple[str, str]]:
    state = found.history[-1].state if found.history else "ready"
    for verb, states in _APPLIES.items():
        if verb in verbs and state in states:
            where = act(base, verb, where=f"_seq = {found.seq}")
            yield f"{verb.capitalize()} this item …", where


def shared_page(
    seat: WatchedQueue, base: str, by: Shared, digest: str, most_age: float, verbs: Sequence[str]
) -> Page | None:
    """Return the page of items that share something; ``None`` where none do."""
    report = seat.items(by, digest, most_age)
    lines, more = report.items[:LISTED], len(report.items) > LISTED
    if not report.about and not lines:
        return None
    called, text_of = _CALLED[by]
    about = report.about[0] if report.about else None
    name = _name_of(by, lines[0]) if about is None else text_of(about)
    parts = [
        *_about(report, f"{by}s"),
        *_sample(about),
        _list_items(base, report, lines, verbs, more=more),
    ]
    actions = list(_redrive(base, about)) if "redrive" in verbs else []
    title = f"{called} {pages.clip(name)}"
    head = page.head(title, "", report)
    full = f"{title} of {sheets.headline(report)}"
    return pages.panels(full, head, parts, actions, trail=pages.trail_of(seat, base), base=base)


def _list_items(
    base: str,
    report: SharedReport,
    lines: Sequence[ItemLine],
    verbs: Collection[str],
    *,
    more: bool = False,
) -> str:
    """Return a list of items, with boxes to tick where actions are allowed."""
    items = sheets.items(lines, report.as_of, more=more)
    seqs = [line.seq for line in lines]
    offered = [verb for verb in _APPLIES if verb in verbs and lines]
    ticks = seqs if offered else []
    shown = panel_tables.table(items, of_items(base, seqs), shown=LISTED, ticks=ticks)
    if not offered:
        return page.section(items.title, shown)
    buttons = "".join(
        f'<button formaction="{in_html(act(base, verb))}">{verb.capitalize()} ticked …</button>'
        for verb in offered
    )
    form = f'<form method="get">{shown}<p class="actions">{buttons}</p></form>'
    return page.section(items.title, form)


def found_page(
    seat: WatchedQueue, base: str, wanted: Wanted, most_age: float, verbs: Collection[str]
) -> Page:
    """Return the page of search results, with the search form."""
    report = seat.find(wanted, most_age)
    lines, more = report.items[:LISTED], len(report.items) > LISTED
    asked = {name: value for name, value in asdict(wanted).items() if value}
    first = {name: value for name, value in asked.items() if name != "after"}
    later = replace(wanted, after=lines[-1].seq) if more else None
    values = {
        "title": f"Items of {sheets.headline(report)}",
        "head": pages.as_markup(page.head("Items", "", report)),
        "states": STATES,
        "wanted": wanted,
        "listed": pages.as_markup(_list_items(base, report, lines, verbs)),
        "actions": list(_of_all(base, wanted, verbs)) if lines else [],
        "first": find(base, **first) if wanted.after else "",
        "later": find(base, **{**first, "after": str(later.after)}) if later else "",
        "trail": pages.trail_of(seat, base),
        "base": base,
        "scripts": ("sort.js",),
    }
    return Page(template="items.html", values=values)


def _of_all(base: str, wanted: Wanted, verbs: Collection[str]) -> Iterator[tuple[str, str]]:
    """Return the actions for all items found, on every page of them."""
    where = wanted.command()
    for verb in _APPLIES:
        if where and verb in verbs:
            yield f"{verb.capitalize()} all that match …", act(base, verb, where=where)


def _name_of(by: Shared, line: ItemLine) -> str | None:
    """Return the shared name of items that the panel's hundred lines leave out."""
    names = {
        "error": line.error,
        "tenant": line.fair_key,
        "group": line.group_key,
        "worker": line.worker_id,
    }
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
        yield f"Redrive its {about.dead:,} dead …", filled
