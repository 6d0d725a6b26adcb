"""Alarms about keys: their bounds, and how long they are paused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta

from spark_queue.report.commands import command_on
from spark_queue.report.finding import Finding, Thresholds, list_names, span
from spark_queue.report.model import Vitals
from spark_queue.report.rate_lines import FillingKey, RateLine
from spark_queue.wording import duration, plural

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


#: By how much more than a burst takes claims are apart, so that a rate is not reached.
_TOO_FAR = 1.1


def rate_unreached(report: Vitals, _thresholds: Thresholds) -> Iterator[Finding]:
    """Find rates that claims come too seldom for, with the burst that would do."""
    apart = report.claims_apart
    for rate in report.rates:
        if not rate.per_second or apart is None or not report.overview.ready:
            continue
        came = apart * rate.per_second
        if came <= _TOO_FAR * rate.burst:
            continue
        burst = math.ceil(came) + 1
        number = rate.allows.partition("/")[0]
        typed = f"{rate.by}={number}" if rate.by else rate.allows.partition(",")[0]
        yield Finding(
            id="rate-unreached",
            severity="info",
            what=f"{_name(rate)} allows {rate.fastest}, but claims are {duration(apart)} apart: "
            f"with a burst of {rate.burst:g} at most {rate.burst / came:.0%} of that can start; "
            f"a burst of {burst:,} would do, or claims each "
            f"{duration(rate.burst / rate.per_second)}",
            command=command_on(report, "configure", "--rate", f"{typed},burst={burst}"),
            reader=report.reader,
        )


def rate_below_inflow(report: Vitals, _thresholds: Thresholds) -> Iterator[Finding]:
    """Find rates below what comes: what waits grows for as long as it comes like that."""
    for rate in report.rates:
        if not rate.filling:
            continue
        first, *others = rate.filling
        waits = plural(round(first.ready), rate.unit)
        more = f"; likewise {list_names([repr(one.key) for one in others])}" if others else ""
        yield Finding(
            id="rate-below-inflow",
            severity="warning",
            what=f"{_name(rate, first.key)} lets {_each(first.starts)} start, and "
            f"{_each(first.comes)} come: what waits ({waits}) doubles in "
            f"{duration(_doubles_in(first))}{more}",
            command=command_on(report, "config"),
            reader=report.reader,
        )


def _doubles_in(one: FillingKey) -> float:
    return one.ready / (one.comes - one.starts)


def _each(per_second: float) -> str:
    """Return a number a second, or of a longer time in which it is no part of one."""
    known = ((1, "a second"), (60, "a minute"), (3_600, "an hour"))
    seconds, unit = next((one for one in known if per_second * one[0] >= 1), known[-1])
    return f"{per_second * seconds:,.3g} {unit}"


def _name(rate: RateLine, key: str = "") -> str:
    if rate.by is None:
        return "the rate of the queue"
    return f"the rate of {rate.by} {key!r}" if key else f"the rate by {rate.by}"


# rule again: debt ahead of a clock
def rate_clocks(report: Vitals, _thresholds: Thresholds) -> Iterator[Finding]:
    """Find workers whose clocks differ by more than a rate's burst takes."""
    if not report.clock_gaps:
        return
    widest = max(report.clock_gaps, key=lambda one: one.seconds)
    yield Finding(
        id="rate-clocks",
        severity="warning",
        what=f"the clock of {widest.ahead} is {duration(widest.seconds)} ahead of that of "
        f"{widest.behind}, by step {widest.step}: rates let more start while they differ",
        command="timedatectl set-ntp true",
        reader=report.reader,
    )
