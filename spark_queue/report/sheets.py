"""A report as tables of texts: what every face of it shows, in the same words and order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from spark_queue.report import condition
from spark_queue.report.lines import (
    ErrorGroup,
    HeldGroup,
    ItemLine,
    OperatorStep,
    Overview,
    ReaderLine,
    Tenant,
    WorkerLine,
)
from spark_queue.report.model import ItemReport, Report, SharedReport, Transition, Vitals
from spark_queue.results import Liveness
from spark_queue.wording import duration, instant, plain, plural, visible

_Line = TypeVar("_Line")

#: Steps whose way back is shown.
_UNDOS = 5

#: Characters of a value that are shown.
_LONGEST_VALUE = 2_000

#: Characters that are shown of a user's column in a list.
_LONGEST_OWN = 60

#: Columns that are left out where all of it is empty.
_RARE = frozenset({"rate", "progress"})

#: A column: its head, how it is set (``left``, ``right``, or ``fold``, which may be broken), and
#: what of a line it shows.
_Column = tuple[str, str, Callable[[Any, datetime], str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A panel as a table of texts."""

    name: str
    title: str
    heads: tuple[tuple[str, str], ...]
    """The columns: each its head, and ``left``, ``right``, ``fold``, or ``fold own`` of a user."""
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    """A note below: how many rows are left out, or that there is none."""
    foot: str = ""
    """What there is to say below: of rows that share a line."""


def headline(report: Vitals | ItemReport | SharedReport) -> str:
    """Say which queue is shown, for which reader, and when."""
    seen = f", as reader {report.reader!r} sees it" if report.reader else ""
    return f"{report.queue}{seen}, {instant(report.as_of)}"


def sheets(report: Report) -> tuple[Sheet, ...]:
    """Return the panels of a report as tables; empty ones say so."""
    found = (
        ("errors", report.errors, _all(report.errors, "wordings")),
        ("tenants", report.tenants, _all(report.tenants, "keys")),
        ("groups", report.groups, _all(report.groups, "heads")),
        ("workers", report.workers, _all(report.workers, "workers")),
        ("readers", report.readers, 0),
        ("steps", report.steps, 0),
    )
    return (
        overview(report),
        *(
            _tenants(report) if name == "tenants" else panel(name, lines, report.as_of, total)
            for name, lines, total in found
        ),
    )


def _tenants(report: Report) -> Sheet:
    """Return the panel of the tenants; the idle ones share a line below."""
    busy = [one for one in report.tenants if not one.idle]
    some = report.tenants[0] if report.tenants else None
    if some is None or not some.idle_keys:
        return panel("tenants", busy, report.as_of, _all(busy, "keys"))
    sheet = panel("tenants", busy, report.as_of, some.keys - some.idle_keys)
    dead = f", with {some.idle_dead:,} dead" if some.idle_dead else ""
    foot = f"{some.idle_keys:,} {'more, ' if busy else ''}all idle{dead}"
    return replace(sheet, foot=foot, note=sheet.note if busy else "")


def panel(name: str, lines: Sequence[Any], now: datetime, total: int = 0) -> Sheet:
    """Return some lines of the panel of a name.

    Parameters
    ----------
    total : int
        How many lines there are in all.
    """
    title, columns = PANELS[name]
    shown = [one for one in columns if one[0] not in _RARE or any(one[2](n, now) for n in lines)]
    return _sheet(name, title, shown, lines, now, total)


def entry(item: ItemReport) -> Sheet:
    """Return an item's columns, keys, priority and times."""
    seen = item.entry
    if seen is None:
        return Sheet(name="entry", title="What it is", heads=(), rows=(), note="nothing")
    rows = [(visible(name), _value(one)) for name, one in seen.columns.items()]
    for one in fields(seen)[1:]:
        value = getattr(seen, one.name)
        if value is not None:
            shown = instant(value) if isinstance(value, datetime) else _value(value)
            rows.append((f"_{one.name}", shown))
    heads = (("column", "left"), ("value", "fold"))
    return Sheet(name="entry", title="What it is", heads=heads, rows=tuple(rows))


def _value(value: Any) -> str:
    """Return a column's value in a line, cut to the room of a page."""
    if value is None:
        return "(none)"
    whole = value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
    said = visible(whole[:_LONGEST_VALUE])
    return f"{said}… ({len(whole):,} characters)" if len(whole) > _LONGEST_VALUE else said


def history(item: ItemReport) -> Sheet:
    """Return the time line of an item."""
    return _sheet("history", "Time line", _HISTORY, item.history, item.as_of)


def items(lines: Sequence[ItemLine], now: datetime, *, more: bool = False) -> Sheet:
    """Return items as a table.

    Parameters
    ----------
    more : bool
        Whether there are others, which are left out.
    """
    names = list(dict.fromkeys(name for one in lines for name in one.columns))
    own: list[_Column] = [(name, "fold own", partial(_own, name)) for name in names]
    known = {head for head, _, shown in ITEMS if any(shown(one, now) for one in lines)}
    kept = [column for column in ITEMS if column[0] in known]
    sheet = _sheet("items", "Items", [*kept[:2], *own, *kept[2:]], lines, now)
    return replace(sheet, note=f"the first {len(lines):,}") if more else sheet


def _own(name: str, line: ItemLine, _now: datetime) -> str:
    """Return a user column's value, cut to the room of a list."""
    if line.columns.get(name) is None:
        return ""
    said = _value(line.columns[name])
    return said if len(said) <= _LONGEST_OWN else f"{said[:_LONGEST_OWN]}…"


def redrives(report: Report) -> tuple[str, ...]:
    """Return the commands that redrive the dead items of the errors shown."""
    return tuple(one.redrive for one in report.errors if one.redrive)


def undos(report: Report) -> tuple[str, ...]:
    """Return the commands that take the newest steps back that operators made."""
    return tuple(dict.fromkeys(one.undo for one in report.steps if one.undo))[:_UNDOS]


def _sheet(
    name: str,
    title: str,
    columns: Sequence[_Column],
    lines: Iterable[_Line],
    now: datetime,
    total: int = 0,
) -> Sheet:
    rows = tuple(tuple(visible(shown(line, now)) for _, _, shown in columns) for line in lines)
    note = "" if rows else "nothing"
    if total > len(rows):
        note = f"{len(rows):,} of {total:,}"
    heads = tuple((head, kind) for head, kind, _ in columns)
    return Sheet(name=name, title=title, heads=heads, rows=rows, note=note)


def _all(lines: Sequence[Any], count: str) -> int:
    return int(getattr(lines[0], count)) if lines else 0


def _apart(at: datetime | None, now: datetime) -> str:
    """Say how far an instant is from another: ``5.0 min ago``, ``in 20.0 s``."""
    if at is None:
        return ""
    seconds = (now - at).total_seconds()
    return f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"


def _lasting(move: Transition) -> str:
    return "" if move.until is None else duration((move.until - move.at).total_seconds())


def _holder(one: HeldGroup | ItemLine) -> str:
    """Name the holder of an item, and say so where it is dead."""
    name = one.worker_id or ""
    if one.liveness in (Liveness.LATE, Liveness.GONE):
        return f"{name} ({one.liveness.value})"
    return name


def _until(one: HeldGroup | WorkerLine, now: datetime) -> str:
    """Say when a lease or a delay ends; a gone worker's lease holds no item."""
    return "" if one.liveness is Liveness.GONE else _apart(one.until, now)


def _count(value: int) -> str:
    return f"{value:,}" if value else ""


def _first_line(text: str | None) -> str:
    lines = (text or "").strip().splitlines()
    return lines[0] if lines else ""


def overview(report: Vitals) -> Sheet:
    """Return where items are, and how many come and go."""
    seen, within = report.overview, condition.window_text(report)
    notes = {
        "runnable": "; ".join([*_oldest(seen), *condition.fewer_start(seen)]),
        "claimed": ", ".join([*unwell(report), *condition.claim_size(report)]),
        "acked": f"{seen.done_in_window:,} in {within}"
        + condition.speed(seen.done_per_second, seen.done_per_second_now),
    }
    always = ("runnable", "claimed", "dead", "acked")
    rows = [
        (name, f"{count:,}", notes.get(name, ""))
        for name, count in seen.counts().items()
        if count or name in always
    ]
    entered = condition.speed(seen.enqueued_per_second, seen.enqueued_per_second_now)
    rows.append(("enqueued", "", f"{seen.enqueued_in_window:,} in {within}{entered}"))
    rows.append(("done in", "", condition.time_left(seen)))
    return Sheet(
        name="overview",
        title="Overview",
        heads=(("state", "left"), ("items", "right"), ("", "fold")),
        rows=tuple(rows),
    )


def unwell(report: Vitals) -> Iterator[str]:
    """Say how many items in flight are late, or have a worker that is gone."""
    if report.overview.late:
        yield f"{report.overview.late:,} with a lease that ran out"
    gone = sum(one.items for one in report.workers if one.liveness is Liveness.GONE)
    if gone:
        yield f"{gone:,} of a worker that is gone"


def _oldest(seen: Overview) -> Iterator[str]:
    if seen.oldest_age is not None:
        yield f"the oldest that waits has waited for {duration(seen.oldest_age)}"


def _tries(one: Transition | ItemLine) -> str:
    counts = [plural(one.attempts, "failure")] if one.attempts else []
    counts += [plural(one.losses, "loss", "losses")] if one.losses else []
    return ", ".join([*counts, plural(one.deferrals, "deferral")] if one.deferrals else counts)


def _of_most(one: Tenant) -> str:
    return _count(one.claimed) if one.most is None else f"{one.claimed:,} of {one.most:,}"


def _say_rate(one: Tenant, now: datetime) -> str:
    return f"{one.rate or ''}{f', next {_apart(one.next_at, now)}' if one.next_at else ''}"


_ERRORS: Sequence[tuple[str, str, Callable[[ErrorGroup, datetime], str]]] = (
    ("error", "fold", lambda one, _: one.wording),
    ("now", "right", lambda one, _: _count(one.in_window)),
    ("ever", "right", lambda one, _: f"{one.failures:,}"),
    ("dead", "right", lambda one, _: _count(one.dead)),
    ("first", "left", lambda one, now: _apart(one.first_at, now)),
    ("last", "left", lambda one, now: _apart(one.last_at, now)),
    ("such as", "left", lambda one, _: " ".join(map(str, one.samples))),
)

_TENANTS: Sequence[tuple[str, str, Callable[[Tenant, datetime], str]]] = (
    (
        "tenant",
        "fold",
        lambda one, _: (
            ("(none)" if one.fair_key is None else one.fair_key)
            + " STARVES" * one.starving
            + " PAUSED" * one.is_paused
        ),
    ),
    ("oldest", "right", lambda one, _: duration(one.oldest_age)),
    ("failed", "right", lambda one, _: _count(one.failures)),
    ("ready", "right", lambda one, _: _count(one.ready)),
    ("claimed", "right", lambda one, _: _of_most(one)),
    ("rate", "right", _say_rate),
    ("dead", "right", lambda one, _: _count(one.dead)),
    ("turns", "right", lambda one, _: _count(one.turns)),
    ("share", "right", lambda one, _: "" if one.share is None else f"{one.share:.0%}"),
    ("due", "right", lambda one, _: "" if one.due is None else f"{one.due:.0%}"),
    ("p50", "right", lambda one, _: duration(one.wait_p50)),
    ("p95", "right", lambda one, _: duration(one.wait_p95)),
    ("max", "right", lambda one, _: duration(one.wait_max)),
    ("work p50", "right", lambda one, _: duration(one.work_p50)),
    ("work p95", "right", lambda one, _: duration(one.work_p95)),
)

_GROUPS: Sequence[tuple[str, str, Callable[[HeldGroup, datetime], str]]] = (
    ("group", "fold", lambda one, _: one.group_key),
    ("behind", "right", lambda one, _: f"{one.behind:,}"),
    ("item", "right", lambda one, _: str(one.head)),
    ("is", "left", lambda one, _: one.why),
    ("since", "left", lambda one, now: _apart(one.since, now)),
    ("until", "left", _until),
    ("by", "fold", lambda one, _: _holder(one) or _first_line(one.error)),
)

_WORKERS: Sequence[tuple[str, str, Callable[[WorkerLine, datetime], str]]] = (
    ("worker", "fold", lambda one, _: one.worker_id or "(unnamed)"),
    ("is", "left", lambda one, _: one.liveness.value if one.liveness else ""),
    ("items", "right", lambda one, _: _count(one.items)),
    ("progress", "fold", lambda one, _: one.said),
    ("since", "left", lambda one, now: _apart(one.since, now)),
    ("until", "left", _until),
    ("late", "right", lambda one, _: _count(one.late)),
    ("lost", "right", lambda one, _: _count(one.lost)),
    ("claimed", "right", lambda one, _: _count(one.claimed)),
    ("acked", "right", lambda one, _: _count(one.acked)),
    ("work p50", "right", lambda one, _: duration(one.work_p50)),
    ("p95", "right", lambda one, _: duration(one.work_p95)),
    ("last claim", "left", lambda one, now: _apart(one.last_claim_at, now)),
)

_READERS: Sequence[tuple[str, str, Callable[[ReaderLine, datetime], str]]] = (
    ("reader", "fold", lambda one, _: (one.reader or "(default)") + " PAUSED" * one.paused),
    ("behind", "right", lambda one, _: f"{one.items:,}"),
    ("open", "right", lambda one, _: _count(one.open_items)),
    ("steps", "right", lambda one, _: _count(one.steps)),
    ("oldest", "right", lambda one, _: duration(one.oldest_age)),
    ("lost", "right", lambda one, _: _count(one.lost)),
    (
        "last step",
        "left",
        lambda one, now: "a stream" if one.streams else _apart(one.last_step_at, now),
    ),
)

_STEPS: Sequence[tuple[str, str, Callable[[OperatorStep, datetime], str]]] = (
    ("when", "left", lambda one, _: instant(one.at)),
    ("step", "right", lambda one, _: f"{one.log} {one.step}"),
    ("what", "left", lambda one, _: one.action),
    ("items", "right", lambda one, _: _count(one.items)),
    ("how", "fold", lambda one, _: one.detail),
    ("who", "fold", lambda one, _: one.who or ""),
)

ITEMS: Sequence[tuple[str, str, Callable[[ItemLine, datetime], str]]] = (
    ("item", "right", lambda one, _: str(one.seq)),
    ("is", "left", lambda one, _: one.why),
    ("since", "left", lambda one, now: _apart(one.since, now)),
    ("tries", "left", lambda one, _: _tries(one)),
    ("tenant", "fold", lambda one, _: one.fair_key or ""),
    ("group", "fold", lambda one, _: one.group_key or ""),
    ("progress", "fold", lambda one, _: "" if one.progress is None else str(one.progress)),
    ("by", "fold", lambda one, _: _holder(one) or _first_line(one.error)),
)

_HISTORY: Sequence[tuple[str, str, Callable[[Transition, datetime], str]]] = (
    ("when", "left", lambda one, _: instant(one.at)),
    ("step", "right", lambda one, _: str(one.step)),
    ("state", "left", lambda one, _: one.state),
    ("tries", "left", lambda one, _: _tries(one)),
    ("for", "right", lambda one, _: _lasting(one)),
    ("worker", "fold", lambda one, _: one.worker_id or ""),
    ("error", "fold", lambda one, _: _first_line(one.error)),
)

#: The panels that are tables, by name: the title, and the columns.
PANELS: Mapping[str, tuple[str, Sequence[_Column]]] = {
    "errors": ("Errors", _ERRORS),
    "tenants": ("Tenants", _TENANTS),
    "groups": ("Held groups", _GROUPS),
    "workers": ("Workers", _WORKERS),
    "readers": ("Readers", _READERS),
    "steps": ("What operators did", _STEPS),
}
