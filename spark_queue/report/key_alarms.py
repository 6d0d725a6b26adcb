"""Alarms about keys: their bounds, and how long they are paused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from spark_queue.report.commands import command_on
from spark_queue.report.finding import Finding, Thresholds, list_names, span
from spark_queue.report.model import Vitals
from spark_queue.wording import plural

#: From when on a pause of a key is worth a word: its age, and how often it was paused again.
_LONG_PAUSE, _OFTEN_PAUSED = timedelta(days=1), 20


def key_paused(report: Vitals, _thresholds: Thresholds) -> Iterator[Finding]:
    """Find keys that are paused for more than a day, or were paused again and again."""
    for one in report.paused_keys:
        if report.as_of - one.at <= _LONG_PAUSE and one.times <= _OFTEN_PAUSED:
            continue
        often = f", {one.times:,} times in a row" if one.times > _OFTEN_PAUSED else ""
        yield Finding(
            id="key-paused",
            severity="info",
            what=f"{one.by} {one.key!r} is paused by {one.who}{often}: nothing of it starts",
            since=one.at,
            command=command_on(report, "resume", "--key", one.key, "--by", one.by),
            reader=report.reader,
        )


def limit_full(report: Vitals, _thresholds: Thresholds) -> Iterator[Finding]:
    """Find keys whose limit kept items back for as long as counts as now."""
    if report.paused or not report.full_limits:
        return
    first, *others = report.full_limits
    more = f"; likewise {list_names([f'{one.by} {one.key!r}' for one in others])}" if others else ""
    waits = f"{plural(first.items, 'item')} {'waits' if first.items == 1 else 'wait'}"
    yield Finding(
        id="limit-full",
        severity="info",
        what=f"{first.by} {first.key!r} has {first.used} of {first.most} items in flight, and "
        f"{waits} for its limit, for {span(report.window)} and longer{more}",
        since=first.since,
        command=command_on(report, "report", "--item", str(first.seq)),
        reader=report.reader,
    )
