"""Rates as a report has them: what they keep back, and what keeps them from their number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from spark_queue.config import QueueConfig
from spark_queue.flow import Rate
from spark_queue.flow_forms import RATES
from spark_queue.report.lines import Tenant
from spark_queue.report.rate_lines import ClockGap, FillingKey, PacedKey, RateLine
from spark_queue.rules.pacing import (
    allowance_of,
    burst_of,
)

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
            "rates": rate_lines(self._config, found),
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


def rate_lines(config: QueueConfig, found: Mapping[str, Sequence[Answer]]) -> tuple[RateLine, ...]:
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
    plain: Mapping[str, Any] = {**asdict(rate), "per": rate.per.total_seconds()}
    return RATES.value({**plain, "limit": limit, "overrides": {}})


def read_tenants(
    rows: Sequence[Answer], asked: Question, rates: Sequence[RateLine]
) -> tuple[Tenant, ...]:
    """Return the panel of tenants.

    Parameters
    ----------
    rows : sequence of dict
        Rows of the view ``tenants``, all that it has.
    asked : Question
        The question, with the settings in force.
    rates : sequence of RateLine
        The rates of the queue, with the keys that they keep back.
    """
    by, weights = asked.config.fair_key, asked.config.weights
    paused = {one.key for one in asked.settings.paused_at(asked.now) if one.by == by}
    limits = [limit for limit in asked.config.limits if limit.by == by]
    paces = [rate for rate in asked.config.rates if rate.by == by is not None]
    starts = {one.key: one.next_at for rate in rates if rate.by == by for one in rate.keys}
    busy = [row["fair_key"] for row in rows if not row["idle"]]
    # The view names a hundred; others may be busy, too.
    unnamed = rows[0]["keys"] - rows[0]["idle_keys"] - len(busy) if rows else 0
    whole = sum(weights.get(key, 1.0) for key in busy) + unnamed
    return tuple(
        Tenant(
            **row,
            most=limits[0].most(row["fair_key"]) if limits else None,
            rate=rate_text(paces[0], paces[0].most(row["fair_key"])) if paces else None,
            next_at=starts.get(row["fair_key"]) if paces else None,
            is_paused=row["fair_key"] in paused,
            due=None if row["idle"] else weights.get(row["fair_key"], 1.0) / whole,
        )
        for row in rows
    )
