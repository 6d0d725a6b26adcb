"""Panels as tables of HTML, whose every word is escaped."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spark_queue.report import drawing
from spark_queue.report.sheets import Sheet
from spark_queue.wording import in_html

#: Where a cell of a sheet leads, given the sheet's name, the row and the column's head: to nothing,
#: to one page, or to as many as the cell has words.
Links = Callable[[str, int, str], Sequence[str]]

#: What may be done about a row of a sheet, given the sheet's name and the row: names, and the pages
#: that ask for it.
Buttons = Callable[[str, int], Sequence[tuple[str, str]]]

#: Rows that are shown at once; the others are there, and shown by a click.
SHOWN = 10

#: Columns with a bar below their number: the largest number has a full bar.
_BARRED = frozenset({("errors", "now"), ("groups", "behind"), ("readers", "behind")})

#: What a head means that does not say it all, in any panel or in one.
MEANT: Mapping[tuple[str, str], str] = {
    ("", "p50"): "Half of the items took no longer",
    ("", "p95"): "95 of 100 items took no longer",
    ("", "work p50"): "From claim to settle: half of the items took no longer",
    ("", "work p95"): "From claim to settle: 95 of 100 items took no longer",
    ("", "behind"): "Items that wait for it; the bar of the most is whole",
    ("", "until"): "When the lease, or the delay, ends",
    ("", "oldest"): "How long the item has waited that waits longest",
    ("", "tries"): "Failures, and leases that were lost",
    ("errors", "now"): "Failures in the window; the bar of the most is whole",
    ("errors", "ever"): "All failures that the tables still have",
    ("errors", "dead"): "Items that died of it, and were not redriven",
    ("errors", "such as"): "Some of its items",
    ("tenants", "p50"): "From when an item could run to its claim: half waited no longer",
    ("tenants", "p95"): "From when an item could run to its claim: 95 of 100 waited no longer",
    ("tenants", "max"): "The longest wait of an item that was claimed in the window",
    ("tenants", "claimed"): "Items in flight, of how many where its key has a limit",
    ("tenants", "rate"): "How many may start in a time, and when the next one may",
    ("tenants", "turns"): "Items that were claimed in the window",
    ("tenants", "share"): "Its part of all turns of the window; the mark is its due",
    ("tenants", "due"): "What its weight entitles it to, among the tenants that are not idle",
    ("groups", "by"): "Who holds the item, or what it failed with",
    ("items", "by"): "Who holds the item, or what it failed with",
    ("workers", "is"): "alive, late: its lease ran out, gone: its process ended, or ended",
    ("workers", "late"): "Items that it holds by a lease that ran out",
    ("workers", "lost"): "Items that were taken from it in the window",
    ("readers", "steps"): "Steps of the item log that it still needs",
    ("readers", "lost"): "Items that were gone before it was registered",
}

#: Columns that say a state.
_STATES = frozenset(
    {("groups", "is"), ("workers", "is"), ("items", "is"), ("history", "state"), ("places", "is")}
)

#: What an empty panel says.
_EMPTY: Mapping[str, str] = {
    "errors": "Nothing has failed.",
    "tenants": "No item has a tenant, or none is left.",
    "groups": "No item waits for another of its group.",
    "workers": "No worker holds an item, or claimed one lately.",
    "readers": "There is no reader.",
    "steps": "No operator has done anything.",
    "items": "No item is like that.",
    "history": "Nothing has happened to it: it waits.",
}

#: How a tenant ends that starves.
_STARVES = " STARVES"

_NUMBER = re.compile(r"[\d,.]+")


def no_links(_sheet: str, _row: int, _head: str) -> Sequence[str]:
    """Lead nowhere: a report that is a file has no other pages."""
    return ()


def no_buttons(_sheet: str, _row: int) -> Sequence[tuple[str, str]]:
    """Return no buttons: a file cannot change a queue."""
    return ()


def table(
    sheet: Sheet,
    links: Links = no_links,
    buttons: Buttons = no_buttons,
    shown: int = SHOWN,
    ticks: Sequence[int] = (),
) -> str:
    """Return a panel without its title; an empty one is a sentence.

    Parameters
    ----------
    shown : int
        Rows that are shown at once.
    ticks : sequence of int
        The item of each row, where a box is to be ticked by which a form names it.
    """
    if not sheet.rows:
        said = sheet.foot or _EMPTY.get(sheet.name, sheet.note)
        return f'<p class="empty">{in_html(said)}</p>'
    note = f'<p class="note">{in_html(sheet.note)}</p>' if sheet.note else ""
    offers = [buttons(sheet.name, at) for at in range(len(sheet.rows))]
    rows = _Drawn(sheet, links, offers if any(offers) else None, _tops(sheet), ticks)
    heads = "<td></td>" if ticks else ""
    heads += "".join(_head(sheet.name, head, kind) for head, kind in sheet.heads)
    heads += _head(sheet.name, "do", "right offers") if any(offers) else ""
    drawn = [rows.row(at) for at in range(len(sheet.rows))]
    first, rest = "".join(drawn[:shown]), "".join(drawn[shown:])
    body = f"<tbody>{first}</tbody>"
    body += f'<tbody class="more">{rest}</tbody>' if rest else ""
    return (
        f'{note}<div class="wide" tabindex="0" role="region" aria-label="{in_html(sheet.title)}">'
        f'<table data-sheet="{in_html(sheet.name)}"><thead><tr>{heads}</tr></thead>{body}</table>'
        f"{_showing(sheet.name, len(drawn) - shown)}{_foot(sheet)}</div>"
    )


def _head(panel: str, text: str, kind: str) -> str:
    if not text:
        return f'<td class="{kind}"></td>'
    meant = "" if kind == "fold own" else MEANT.get((panel, text)) or MEANT.get(("", text), "")
    title = f' title="{in_html(meant)}"' if meant else ""
    return f'<th scope="col" class="{kind}"{title}>{in_html(text)}</th>'


def _showing(name: str, more: int) -> str:
    """Return the control that shows the other rows."""
    if more <= 0:
        return ""
    return (
        f'<label class="showing"><input type="checkbox" class="all" id="all-{in_html(name)}">'
        f" show {more:,} more</label>"
    )


def _foot(sheet: Sheet) -> str:
    return f'<p class="muted">{in_html(sheet.foot)}</p>' if sheet.foot else ""


def _tops(sheet: Sheet) -> Mapping[int, float]:
    """Return the most of each column that has bars, by its place."""
    places = [at for at, (head, _) in enumerate(sheet.heads) if (sheet.name, head) in _BARRED]
    return {at: max(_number(row[at]) for row in sheet.rows) or 1.0 for at in places}


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A sheet that is drawn row by row."""

    sheet: Sheet
    links: Links
    offers: Sequence[Sequence[tuple[str, str]]] | None
    tops: Mapping[int, float]
    ticks: Sequence[int]

    def row(self, at: int) -> str:
        cells = _box(self.ticks[at]) if self.ticks else ""
        cells += "".join(self._cell(at, column) for column in range(len(self.sheet.heads)))
        if self.offers is not None:
            offered = "".join(button(name, to) for name, to in self.offers[at])
            cells += f'<td class="right offers">{offered}</td>'
        return f"<tr>{cells}</tr>"

    def _cell(self, at: int, column: int) -> str:
        head, kind = self.sheet.heads[column]
        text = self.sheet.rows[at][column]
        if kind == "fold own":
            # It may be called like a column of ours.
            return f'<td class="{kind}">{in_html(text)}</td>'
        shown = self._text(head, text, self.links(self.sheet.name, at, head))
        if column in self.tops and text:
            shown += drawing.share(_number(text) / self.tops[column])
        if (self.sheet.name, head) == ("tenants", "share") and text:
            due = self.sheet.rows[at][column + 1]
            shown += drawing.share(_number(text) / 100, _number(due) / 100 if due else None)
        return f'<td class="{kind}">{shown}</td>'

    def _text(self, head: str, text: str, hrefs: Sequence[str]) -> str:
        if text and (self.sheet.name, head) in _STATES:
            return pill(text)
        if self.sheet.name == "tenants" and text.endswith(_STARVES):
            return f"{link(text.removesuffix(_STARVES), hrefs)} {pill(_STARVES.strip())}"
        return link(text, hrefs)


def _box(seq: int) -> str:
    return (
        f'<td><input type="checkbox" id="tick-{seq}" name="seq" value="{seq}"'
        f' aria-label="item {seq}"></td>'
    )


def _number(text: str) -> float:
    found = _NUMBER.match(text)
    return float(found[0].replace(",", "")) if found else 0.0


def pill(word: str) -> str:
    """Return a state as a word that has a sign and a colour."""
    kind = re.sub(r"[^a-z]+", "-", word.lower())
    return f'<b class="pill {kind}">{in_html(word)}</b>'


def button(name: str, href: str) -> str:
    """Return a link that leads to the form of an action."""
    return f'<a class="act" href="{in_html(href)}">{in_html(name)}</a>'


def link(text: str, hrefs: Sequence[str]) -> str:
    """Return a text that links to a page, or each of its words to one."""
    if not hrefs:
        return in_html(text)
    words = [text] if len(hrefs) == 1 else text.split()
    pairs = zip(words, hrefs, strict=True)
    return " ".join(f'<a href="{in_html(href)}">{in_html(word)}</a>' for word, href in pairs)
