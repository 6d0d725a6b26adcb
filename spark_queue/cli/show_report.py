"""A report as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table

from spark_queue.cli.display import FOLDED, Whole, compact_table, text_of
from spark_queue.report import sheets
from spark_queue.report.condition import judge_condition, kept_back
from spark_queue.report.model import ItemReport, Report
from spark_queue.report.sheets import Sheet
from spark_queue.wording import lasting

#: Eighths of a line, from none to all.
_BARS = " ▁▂▃▄▅▆▇█"

#: Rows of a panel that a terminal shows where many are to fit on it.
FEW = 5

#: Spaces between two columns.
_BETWEEN = 2

#: Signs that the titles of panels take in a line.
_TITLES = 13

#: What comes and goes, by the field that has it, and the signs that the names of lines take.
_FLOWS = (("enqueued", "entered"), ("acked", "done"), ("failed", "failed"))
_NAMES = 17

#: Panels that a terminal shows while it is looked at.
_LIVE = ("overview", "errors", "tenants", "groups", "workers")


def report(shown: Report) -> list[RenderableType]:
    """Show all panels of a report, what went wrong first."""
    overview, errors, *others = sheets.sheets(shown)
    return [
        Whole(sheets.headline(shown)),
        str(judge_condition(shown)),
        *kept_back(shown),
        *_sheet_lines(overview),
        *_plots(shown),
        *_sheet_lines(errors),
        *map(Whole, sheets.redrives(shown)),
        *(part for sheet in others for part in _sheet_lines(sheet)),
        *map(Whole, sheets.undos(shown)),
    ]


def item(shown: ItemReport) -> list[RenderableType]:
    """Show what happened to an item, and what it waits for."""
    chain = [f"  item {one.seq}: {one.detail}" for one in shown.chain]
    head = Whole(f"item {shown.seq} of {sheets.headline(shown)}")
    return [
        head,
        shown.text,
        *chain,
        *place(shown),
        *_sheet_lines(sheets.entry(shown)),
        *_sheet_lines(sheets.history(shown)),
    ]


def place(shown: ItemReport) -> list[str]:
    """Say where an item stands in line, if it does."""
    return [] if shown.place is None else [str(shown.place)]


def live(shown: Report) -> list[RenderableType]:
    """Show what changes from one second to the next: the state, a line and rows of each panel."""
    chosen = [sheet for sheet in sheets.sheets(shown) if sheet.name in _LIVE and sheet.rows]
    said = str(judge_condition(shown))
    parts: list[RenderableType] = [text_of(sheets.headline(shown), said)]
    parts += map(text_of, kept_back(shown))
    parts += [*map(text_of, _plots(shown)), "", *map(_brief, chosen)]
    for sheet in chosen:
        parts += map(_as_text, _sheet_lines(sheet, None if sheet.name == "overview" else FEW))
    return parts


def _brief(sheet: Sheet) -> RenderableType:
    """Show a panel in a line: how much it has, and its first row."""
    rows = [row[:2] for row in sheet.rows if any(row[1:2])] if sheet.name == "overview" else ()
    said = ", ".join(f"{count} {state}" for state, count in rows)
    said = said or f"{len(sheet.rows):,}: {'  '.join(filter(None, sheet.rows[0]))}"
    text = text_of(f"{sheet.title:<{_TITLES}}{said}")
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def line(values: Sequence[int]) -> str:
    """Return numbers as one line of bars: the highest fills it, and none but 0 is left out."""
    most = max(values, default=0)
    last = len(_BARS) - 1
    return "".join(_BARS[-(-value * last // most) if most else 0] for value in values)


def _plots(shown: Report) -> list[str]:
    depth = [point.items for point in shown.depth]
    within = lasting(shown.window.total_seconds())
    flows = {name: _sum_pairs([getattr(one, of) for one in shown.flow]) for name, of in _FLOWS}
    lines = [f"{'open, 1 d':<{_NAMES}}|{line(depth)}| at most {max(depth, default=0):,}"]
    lines += [
        f"{name + ', ' + within:<{_NAMES}}|{line(values)}| at most {max(values):,}"
        for name, values in flows.items()
        if any(values)
    ]
    return ["", *lines]


def _sum_pairs(values: Sequence[int]) -> list[int]:
    """Return a number for two, as eighty columns have room for."""
    return [sum(values[at : at + 2]) for at in range(0, len(values), 2)]


def _sheet_lines(sheet: Sheet, most: int | None = None) -> Iterable[RenderableType]:
    note = f": {sheet.note}" if sheet.note else ""
    yield ""
    yield f"{sheet.title}{note}"
    if sheet.rows:
        yield _table(sheet, most)
    if sheet.foot:
        yield sheet.foot


def _as_text(part: RenderableType) -> RenderableType:
    return text_of(part) if isinstance(part, str) else part


def _table(sheet: Sheet, most: int | None = None) -> RenderableType:
    return _Fitting(sheet.heads, sheet.rows[:most])


@dataclass(frozen=True, slots=True)
class _Fitting:
    """A table no wider than its console: it leaves out whole columns."""

    heads: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        shown = list(range(len(self.heads)))
        if self._width(shown) > options.max_width:
            shown = [n for n in shown if n == 0 or any(row[n] for row in self.rows)]
        cut = []
        while len(shown) > 1 and self._width(shown) > options.max_width:
            cut.append(self.heads[shown.pop()][0])
        yield self._table(shown)
        if cut:
            yield text_of(f"in a wider terminal: {', '.join(reversed(cut))}")

    def _width(self, columns: Sequence[int]) -> int:
        widths = [
            FOLDED if self.heads[n][1] == "fold" else max(map(cell_len, self._texts(n)))
            for n in columns
        ]
        return sum(widths) + _BETWEEN * (len(widths) - 1)

    def _texts(self, column: int) -> list[str]:
        return [self.heads[column][0], *(row[column] for row in self.rows)]

    def _table(self, columns: Sequence[int]) -> Table:
        table = compact_table()
        for head, kind in (self.heads[n] for n in columns):
            fold = kind == "fold"
            table.add_column(
                head,
                justify="right" if kind == "right" else "left",
                overflow="fold" if fold else "ellipsis",
                no_wrap=not fold,
                min_width=FOLDED if fold else None,
            )
        for row in self.rows:
            table.add_row(*(text_of(row[n]) for n in columns))
        return table
