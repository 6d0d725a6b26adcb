"""Pages of queues: the index, one queue with its panels, and findings of checkups."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from spark_queue.errors import SparkQueueError
from spark_queue.log.step_events import logger
from spark_queue.report import drawing, page, panel_tables, sheets
from spark_queue.report.alarms import ALARMS
from spark_queue.report.condition import judge_condition
from spark_queue.report.finding import Checkup, Finding, how_bad
from spark_queue.report.lines import FlowPoint
from spark_queue.report.model import Report
from spark_queue.report.page import rate
from spark_queue.report.panel_tables import button, link, pill
from spark_queue.results import Liveness
from spark_queue.serve import pages
from spark_queue.serve.pages import Page, act, base_of, link_item, of_report, row_buttons
from spark_queue.serve.watching import RANGES, Board, WatchedQueue
from spark_queue.wording import duration, in_html, line_of, plural

#: What the buttons of a queue say that lead to the forms of its actions.
_SAID = {
    "pause": "Pause claims …",
    "resume": "Resume claims …",
    "cancel": "Cancel items …",
    "redrive": "Redrive items …",
    "configure": "Change settings …",
}

#: Queues that are wrong come first where the state is sorted by.
_RANKS = ("ERROR", "BROKEN", "STALLED", "FAILING", "PAUSED", "WARNING", "OK")


def board(seats: Board, most_age: float, verbs: Collection[str]) -> Page:
    """Return the page of all queues."""
    checked = {seat.number: [*_check(seat)] for seat in seats}
    lines = [_line(seat, most_age, checked[seat.number]) for seat in seats]
    every = [one for found in checked.values() for one in found]
    strip = draw_strip(every, verbs, names=True)
    values = {"title": "Queues", "queues": lines, "strip": pages.as_markup(strip)}
    return Page(template="board.html", values={**values, "scripts": ("sort.js",)})


def _line(seat: WatchedQueue, most_age: float, checked: Sequence[Checked]) -> dict[str, Any]:
    line = {"name": seat.name, "href": base_of(seat.number), "error": ""}
    try:
        return {**line, **_figures(seat.report(most_age), checked)}
    except (SparkQueueError, OSError) as exc:
        # The others are shown nevertheless.
        return {**line, "error": str(exc), **_state("ERROR")}
    except Exception as exc:  # noqa: BLE001 - an error of one queue stops no other
        logger.exception("%s: cannot be shown", seat.name)
        return {**line, "error": line_of(exc) or type(exc).__name__, **_state("ERROR")}


def _figures(report: Report, checked: Sequence[Checked]) -> dict[str, Any]:
    seen = report.overview
    since = seen.runnable_since
    oldest = None if since is None else (report.as_of - since).total_seconds()
    depth = drawing.spark("open items of a day", [point.items for point in report.depth])
    return {
        **_state(judge_condition(report, _of_tables(checked)).word),
        "ready": f"{seen.ready:,}",
        "claimed": f"{seen.claimed:,}",
        "dead": f"{seen.dead:,}",
        "failing": f"{sum(one.in_window for one in report.errors):,}",
        "entering": rate(seen.enqueued_per_second),
        "leaving": rate(seen.done_per_second),
        "oldest": duration(oldest),
        "workers": _workers(report),
        "depth": pages.as_markup(depth),
    }


def _of_tables(checked: Sequence[Checked]) -> list[Finding]:
    """Return the findings of a checkup that the newer report lacks."""
    return [found for one in checked for found in one.checkup.findings if found.id not in ALARMS]


def _state(word: str) -> dict[str, Any]:
    return {"state": pages.as_markup(panel_tables.pill(word)), "rank": _RANKS.index(word)}


def _workers(report: Report) -> str:
    """Say how many of the items' holders are alive."""
    counts = {
        kind: sum(1 for one in report.workers if one.items and one.liveness is kind)
        for kind in (Liveness.ALIVE, Liveness.LATE, Liveness.GONE)
    }
    return ", ".join(f"{count:,} {kind.value}" for kind, count in counts.items() if count)


def _check(seat: WatchedQueue) -> Iterator[Checked]:
    """Return a checkup's findings; nothing where the queue cannot be read."""
    try:
        yield Checked(number=seat.number, name=seat.name, checkup=seat.checkup())
    except (SparkQueueError, OSError):
        return
    except Exception:  # noqa: BLE001 - as above
        logger.exception("%s: cannot be checked", seat.name)


def queue(
    seat: WatchedQueue, base: str, most_age: float, verbs: Sequence[str], hours: int = 1
) -> Page:
    """Return the page of a queue, with buttons that lead to the forms of some actions.

    Parameters
    ----------
    hours : int
        What the chart shows, of :data:`RANGES`.
    """
    report = seat.report(most_age)
    buttons = row_buttons(base, report, verbs)
    links = of_report(base, seat.number, report)
    drawn = _chart(base, report, seat.flow(hours, most_age), hours)
    sections = page.sections(report, links, buttons, chart=drawn)
    checked = [*_check(seat)]
    strip = draw_strip(checked, verbs, names=False)
    parts = [strip, page.navigation(sections), page.join(sections)]
    actions = [(_SAID[verb], act(base, verb)) for verb in _applying(report, verbs)]
    head = page.banner(report, seat.name, _of_tables(checked))
    title = sheets.headline(report)
    return pages.panels(title, head, parts, actions, base=base, scripts=("sort.js",))


def _applying(report: Report, verbs: Collection[str]) -> Iterator[str]:
    """Return the actions that would change something now."""
    seen = report.overview
    applies = {
        "pause": not report.paused,
        "resume": report.paused,
        "cancel": bool(seen.ready or seen.claimed),
        "redrive": bool(seen.dead or seen.expired or seen.cancelled),
        "configure": True,
    }
    yield from (verb for verb, applies_now in applies.items() if applies_now and verb in verbs)


def _chart(base: str, report: Report, points: Sequence[FlowPoint], hours: int) -> str:
    """Return the chart of some hours, with links to others, and the other plots."""
    links = "".join(
        f'<a href="{base}?hours={one}"{" aria-current=true" * (one == hours)}>{said}</a>'
        for one, said in RANGES.items()
    )
    ranges = f'<nav class="ranges" aria-label="Range">{links}</nav>'
    return ranges + page.plots(report, points, timedelta(hours=hours))


#: Options of a finding's command that fill in the form of its action.
_FILLED = frozenset({"--where", "--key", "--by"})

#: Findings that are shown at once.
_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A queue that was examined, with its findings."""

    number: int
    name: str
    checkup: Checkup


def draw_strip(checked: Sequence[Checked], verbs: Collection[str], *, names: bool) -> str:
    """Return the findings of some queues, the worst first.

    Parameters
    ----------
    verbs : collection of str
        The actions that are offered.
    names : bool
        Whether each finding says which queue it is about.
    """
    found = [(one, finding) for one in checked for finding in one.checkup.findings]
    found.sort(key=lambda pair: how_bad(pair[1]))
    grave = [pair for pair in found if pair[1].severity != "info"][:_SHOWN]
    lines = [_finding(one, finding, verbs, name=names) for one, finding in found]
    more = _more(lines[len(grave) :], "more finding" if grave else "note")
    left = "".join(_failures_of(one) for one in checked)
    if not grave:
        said = "The doctor finds nothing wrong."
        return f'<div class="strip"><p class="empty">{said}</p>{more}{left}</div>'
    items = "".join(lines[: len(grave)])
    return f'<div class="strip"><ul class="findings">{items}</ul>{more}{left}</div>'


def _more(lines: Sequence[str], called: str) -> str:
    if not lines:
        return ""
    title = f"{plural(len(lines), called)}"
    return (
        f'<details><summary>{title}</summary><ul class="findings">{"".join(lines)}</ul></details>'
    )


def _failures_of(one: Checked) -> str:
    if not one.checkup.unchecked:
        return ""
    whys = "".join(
        f"<li>{in_html(name)}: {in_html(why)}</li>" for name, why in one.checkup.unchecked.items()
    )
    title = f"{plural(len(one.checkup.unchecked), 'check')} of {one.name} could not be made"
    return f"<details><summary>{in_html(title)}</summary><ul>{whys}</ul></details>"


def _finding(one: Checked, finding: Finding, verbs: Collection[str], *, name: bool) -> str:
    queue = f"{link(one.name, [base_of(one.number)])}: " if name else ""
    since = _since(finding.since, one.checkup.at)
    reader = f" (reader {finding.reader!r})" if finding.reader else ""
    offered = "".join(button(text, to) for text, to in _offers(one.number, finding, verbs))
    command = f"<code>{in_html(finding.command)}</code>" if finding.command else ""
    return (
        f'<li class="finding {finding.severity}">{pill(finding.severity)} <div><p>{queue}'
        f"<b>{in_html(finding.id)}</b>{in_html(reader)} {in_html(finding.what)}"
        f'<span class="muted">{in_html(since)}</span></p>{command}</div>{offered}</li>'
    )


def _since(at: datetime | None, now: datetime) -> str:
    seconds = 0.0 if at is None else (now - at).total_seconds()
    return f" for {duration(seconds)}" if seconds >= 1 else ""


def _offers(number: int, finding: Finding, verbs: Collection[str]) -> Iterator[tuple[str, str]]:
    """Return the pages of actions that do a finding's command."""
    words = shlex.split(finding.command)[1:]
    if not finding.command.startswith("spark-queue ") or len(words) < 2:  # noqa: PLR2004 - verb, queue
        return
    verb, rest = words[0], words[2:]
    base = base_of(number, finding.reader or None)
    seq = rest[-1] if rest and verb in {"explain", "report"} else ""
    if seq.isdecimal():
        yield f"Item {seq}", link_item(base, int(seq))
    if verb in verbs:
        options = pairwise(rest)
        fields = {one.removeprefix("--"): said for one, said in options if one in _FILLED}
        yield f"{verb.capitalize()} …", act(base, verb, **fields)
