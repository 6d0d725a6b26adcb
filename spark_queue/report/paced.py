"""Rates in a report: lines, tenants, and alarms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from spark_queue.config import QueueConfig
from spark_queue.flow import Rate
from spark_queue.flow_forms import NONE, RATES
from spark_queue.report.commands import command_on
from spark_queue.report.finding import Finding, Thresholds, list_names
from spark_queue.report.lines import Tenant
from spark_queue.report.model import Vitals
from spark_queue.report.rate_lines import ClockGap, FillingKey, PacedKey, RateLine
from spark_queue.rules.pacing import allowance_of, burst_of
from spark_queue.wording import duration, plural

if TYPE_CHECKING:
    from spark_queue.state.store import Store
    from spark_queue.views.answers import Answer, Answers, Ends, Question, ViewSource

#: The views that only a queue with rates is asked for.
OF_RATES = ("claim_steps", "entering", "paced_keys", "started")

#: Those with rows of each rate.
_BY_RATE = ("paced_keys", "entering", "started")

#: Differences of clocks that a report names.
_NAMED = 100


class Owed:
    """What the keys of a queue's rates owe.

    Parameters
    ----------
    config : QueueConfig
        The configuration in force.
    rows : sequence of dict
        The rows of debts in the log, in any order.
    """

    def __init__(self, config: QueueConfig, rows: list[dict[str, Any]]) -> None:
        self._config = config
        self._rows = sorted(rows, key=lambda row: (row["_by"], row["_key"] or "", row["_step"]))

    @classmethod
    def read(cls, source: ViewSource, store: Store, ends: Ends, asked: Question) -> Owed:
        """Read it; a queue without rates is not asked."""
        rows = source.find_debts(store, ends.head).to_pylist() if asked.config.rates else []
        return cls(asked.config, rows)

    def facts(self, answers: Answers, found: Mapping[str, list[Answer]]) -> dict[str, Any]:
        """Return what a report's vitals say of rates, given the rows of its views."""
        return {
            "rates": _lines(self._config, found),
            "clock_gaps": self._clock_gaps(answers),
            "claims_apart": next((row["apart"] for row in found.get("claim_steps", ())), None),
        }

    def _clock_gaps(self, answers: Answers) -> tuple[ClockGap, ...]:
        """Return where a step's clock was behind the one before by more than the burst takes."""
        found = list(self._gaps())[-_NAMED:]
        steps = ", ".join(str(row["_step"]) for pair in found for row in pair)
        if not steps:
            return ()
        rows = answers.rows("transitions", f"granted AND step IN ({steps})")
        who = {row["step"]: row["worker_id"] or "an unnamed worker" for row in rows}
        return tuple(
            ClockGap(
                ahead=who.get(one["_step"], "a worker"),
                behind=who.get(other["_step"], "a worker"),
                seconds=(one["_at"] - other["_at"]).total_seconds(),
                step=other["_step"],
            )
            for one, other in found
        )

    def _gaps(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        rates = {rate.text: rate for rate in self._config.rates}
        for (by, key), rows in groupby(self._rows, lambda row: (row["_by"], row["_key"])):
            most = rates[by].most(key) if by in rates else None
            if most is None:
                continue
            least = timedelta(microseconds=allowance_of(rates[by], most) / 1_000)
            yield from (pair for pair in pairwise(rows) if pair[0]["_at"] - pair[1]["_at"] > least)


def _lines(config: QueueConfig, found: Mapping[str, Sequence[Answer]]) -> tuple[RateLine, ...]:
    """Return the rates of a queue by the rows of their views, as far as these were asked."""
    return tuple(
        _line(
            rate,
            {name: [row for row in found.get(name, ()) if row["nth"] == nth] for name in _BY_RATE},
        )
        for nth, rate in enumerate(config.rates)
    )


def _line(rate: Rate, found: Mapping[str, Sequence[Answer]]) -> RateLine:
    fastest = max(filter(None, (rate.limit, *rate.overrides.values())), default=None)
    paced, filling, started = (found[name] for name in _BY_RATE)
    return RateLine(
        by=rate.by,
        unit="item" if rate.units is None else "unit",
        allows=rate_text(rate, rate.limit),
        fastest=rate_text(rate, fastest),
        per_second=None if fastest is None else fastest / rate.per.total_seconds(),
        burst=0.0 if fastest is None else float(burst_of(rate, fastest)),
        paced=next((row["keys"] for row in paced), 0),
        keys=tuple(PacedKey(key=row["key"], next_at=row["until"]) for row in paced),
        filling=tuple(
            FillingKey(**{name: row[name] for name in ("key", "ready", "comes", "starts")})
            for row in filling
        ),
        started=next((row["units"] for row in started), 0.0),
    )


def rate_text(rate: Rate, limit: float | None) -> str:
    """Return what a rate allows a key with some number, as it is typed."""
    plain = {**asdict(rate), "per": rate.per.total_seconds(), "limit": limit}
    return NONE if limit is None else RATES.value(plain)


def read_tenants(
    rows: Sequence[Answer], asked: Question, paced: Sequence[Answer]
) -> tuple[Tenant, ...]:
    """Return the panel of tenants.

    Parameters
    ----------
    rows : sequence of dict
        Rows of the view ``tenants``, all that it has.
    asked : Question
        The question, with the settings in force.
    paced : sequence of dict
        Rows of the view ``paced_keys``; none where the queue is not asked for them.
    """
    by, weights = asked.config.fair_key, asked.config.weights
    paused = {one.key for one in asked.settings.paused_at(asked.now) if one.by == by}
    limit = next((one for one in asked.config.limits if one.by == by), None)
    of_tenant = ((nth, one) for nth, one in enumerate(asked.config.rates) if one.by == by)
    number, rate = next(of_tenant, (None, None)) if by else (None, None)
    starts = {row["key"]: row["until"] for row in paced if row["nth"] == number}
    busy = [row["fair_key"] for row in rows if not row["idle"]]
    # The view names a hundred; others may be busy, too.
    unnamed = rows[0]["keys"] - rows[0]["idle_keys"] - len(busy) if rows else 0
    whole = sum(weights.get(key, 1.0) for key in busy) + unnamed
    return tuple(
        Tenant(
            **row,
            most=limit.most(row["fair_key"]) if limit else None,
            rate=rate_text(rate, rate.most(row["fair_key"])) if rate else None,
            next_at=starts.get(row["fair_key"]),
            is_paused=row["fair_key"] in paused,
            due=None if row["idle"] else weights.get(row["fair_key"], 1.0) / whole,
        )
        for row in rows
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
