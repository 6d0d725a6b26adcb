"""Findings of checkups, each with the command or the button that mends it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from spark_queue.report.finding import Checkup, Finding, how_bad
from spark_queue.report.panel_tables import button, link, pill
from spark_queue.serve.addresses import act, base_of, link_item
from spark_queue.wording import duration, in_html, plural

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
    lines = [_line(one, finding, verbs, name=names) for one, finding in found]
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


def _line(one: Checked, finding: Finding, verbs: Collection[str], *, name: bool) -> str:
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
        where = rest[rest.index("--where") + 1] if "--where" in rest else ""
        yield f"{verb.capitalize()} …", act(base, verb, **({"where": where} if where else {}))
