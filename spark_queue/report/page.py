"""A report as HTML: one text that needs no network, whose every word is escaped."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spark_queue.report import sheets
from spark_queue.report.model import ItemReport, Report
from spark_queue.report.sheets import Sheet
from spark_queue.wording import duration, in_html

#: What a page may load: nothing. Its style is in it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

#: How its parts look.
STYLE = """
.sq{font:14px/1.4 system-ui,sans-serif;color:#1c2330;background:#fff}
.sq h1{font-size:18px;margin:0 0 4px}
.sq h2{font-size:15px;margin:20px 0 4px}
.sq .note{color:#8a4b00}
.sq .wide{overflow-x:auto}
.sq table{border-collapse:collapse}
.sq th,.sq td{padding:2px 10px 2px 0;text-align:left;vertical-align:top;white-space:nowrap}
.sq th{color:#5b6472;font-weight:600;border-bottom:1px solid #d5dae1}
.sq .right{text-align:right;font-variant-numeric:tabular-nums}
.sq .fold{white-space:normal;overflow-wrap:anywhere;min-width:8em}
.sq code{display:block;background:#f2f4f7;padding:4px 8px;margin:4px 0;overflow-wrap:anywhere}
.sq svg{display:block;max-width:100%;height:auto}
.sq svg text{font:11px system-ui,sans-serif;fill:#5b6472}
"""

#: Where a cell of a sheet leads, given the sheet's name, the row and the column's head: to nothing,
#: to one page, or to as many as the cell has words.
Links = Callable[[str, int, str], Sequence[str]]

#: A plot, in the units of its own.
_WIDTH, _HEIGHT, _ROOM = 600, 90, 16


def page(report: Report) -> str:
    """Return a whole document, to be written to a file or shown by a browser."""
    return _document(sheets.headline(report), fragment(report))


def item_page(item: ItemReport) -> str:
    """Return a whole document about one item."""
    return _document(f"item {item.seq} of {sheets.headline(item)}", item_fragment(item))


def fragment(report: Report) -> str:
    """Return what a notebook shows."""
    return _add_style(heading(sheets.headline(report)) + panels(report))


def no_links(_sheet: str, _row: int, _head: str) -> Sequence[str]:
    """Lead nowhere: a report that is a file has no other pages."""
    return ()


def panels(report: Report, links: Links = no_links) -> str:
    """Return all panels of a report, without their style."""
    overview, errors, *others = sheets.sheets(report)
    plots = (
        _plot("Open items, the last day", [point.items for point in report.depth]),
        _plot(
            f"Failures, the last {duration(report.window.total_seconds())}",
            [point.failures for point in report.retries],
        ),
        _plot("of which claimed again", [point.claimed_again for point in report.retries]),
    )
    first, then = table(overview, links), table(errors, links)
    rest = [table(other, links) for other in others]
    redrives, undos = _commands(sheets.redrives(report)), _commands(sheets.undos(report))
    return "".join((first, *plots, then, redrives, *rest, undos))


def _commands(texts: Sequence[str]) -> str:
    return "".join(f"<code>{in_html(one)}</code>" for one in texts)


def item_fragment(item: ItemReport) -> str:
    """Return what a notebook shows of one item."""
    return _add_style(heading(f"Item {item.seq} of {sheets.headline(item)}") + item_panels(item))


def item_panels(item: ItemReport, link: Callable[[int], str] = lambda _seq: "") -> str:
    """Return what there is to say of an item, without its style; others lead to their pages."""
    why = "".join(
        f"<li>{_item_link(one.seq, link)}: {in_html(one.detail)}</li>" for one in item.chain
    )
    chain = f"<p><b>{in_html(item.text)}</b></p><ul>{why}</ul>"
    return chain + table(sheets.entry(item)) + table(sheets.history(item))


def _item_link(seq: int, link: Callable[[int], str]) -> str:
    return _link(f"item {seq}", [link(seq)] if link(seq) else [])


def _document(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{in_html(title)}</title></head><body>{body}</body></html>"
    )


def _add_style(body: str) -> str:
    return f'<style>{STYLE}</style><div class="sq">{body}</div>'


def heading(text: str) -> str:
    """Return the first line of a page."""
    return f"<h1>{in_html(text)}</h1>"


def table(sheet: Sheet, links: Links = no_links) -> str:
    """Return a panel, with its title."""
    note = f'<p class="note">{in_html(sheet.note)}</p>' if sheet.note else ""
    title = f"<h2>{in_html(sheet.title)}</h2>{note}"
    if not sheet.rows:
        return title
    kinds = [kind for _, kind in sheet.heads]
    heads = _cells("th", [head for head, _ in sheet.heads], kinds)
    rows = "".join(_row(sheet, at, links) for at in range(len(sheet.rows)))
    return f'{title}<div class="wide"><table><tr>{heads}</tr>{rows}</table></div>'


def _row(sheet: Sheet, at: int, links: Links) -> str:
    hrefs = [links(sheet.name, at, head) for head, _ in sheet.heads]
    return f"<tr>{_cells('td', sheet.rows[at], [kind for _, kind in sheet.heads], hrefs)}</tr>"


def _cells(
    tag: str, texts: Sequence[str], kinds: Sequence[str], hrefs: Sequence[Sequence[str]] = ()
) -> str:
    cells = zip(texts, kinds, hrefs or [()] * len(texts), strict=True)
    return "".join(f'<{tag} class="{kind}">{_link(text, to)}</{tag}>' for text, kind, to in cells)


def _link(text: str, hrefs: Sequence[str]) -> str:
    """Return a text that leads to a page, or whose words lead to one each."""
    if not hrefs:
        return in_html(text)
    words = [text] if len(hrefs) == 1 else text.split()
    pairs = zip(words, hrefs, strict=True)
    return " ".join(f'<a href="{in_html(href)}">{in_html(word)}</a>' for word, href in pairs)


def _plot(title: str, values: Sequence[int]) -> str:
    """Draw bars from the oldest to the newest; the highest says how much it is."""
    most = max(values, default=0)
    step = _WIDTH / max(1, len(values))
    bars = "".join(
        f'<rect x="{at * step:.1f}" y="{_ROOM + _HEIGHT - height:.1f}" '
        f'width="{step * 0.85:.1f}" height="{height:.1f}" fill="#3b6fb6">'
        f"<title>{value:,}</title></rect>"
        for at, value in enumerate(values)
        if (height := _HEIGHT * value / most if most else 0) > 0
    )
    base = _ROOM + _HEIGHT
    return (
        f"<h2>{in_html(title)}</h2>"
        f'<svg viewBox="0 0 {_WIDTH} {base + 2}" width="{_WIDTH}" role="img" '
        f'aria-label="{in_html(title)}"><text x="0" y="11">at most {most:,}</text>{bars}'
        f'<line x1="0" y1="{base}" x2="{_WIDTH}" y2="{base}" stroke="#d5dae1"/></svg>'
    )
