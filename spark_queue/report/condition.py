"""Condition of a queue in one word, with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from spark_queue.results import Liveness
from spark_queue.wording import duration, lasting, plural

if TYPE_CHECKING:
    from spark_queue.report.model import Vitals

#: The words, the worst first.
Word = Literal["PAUSED", "STUCK", "FAILING", "OK"]

#: The signs beside them, as the style has them, too.
SIGNS: Mapping[Word, str] = {"PAUSED": "‖", "STUCK": "■", "FAILING": "▲", "OK": "✓"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """How a queue does."""

    word: Word
    why: str
    """In a sentence without a full stop."""

    def __str__(self) -> str:
        return f"{SIGNS[self.word]} {self.word}: {self.why}"


def judge_condition(report: Vitals) -> Condition:
    """Say how a queue does: the first of its troubles, or that there is none."""
    return next(_troubles(report), Condition(word="OK", why=_calm(report)))


def _troubles(report: Vitals) -> Iterator[Condition]:
    seen = report.overview
    if report.paused:
        why = f"claims get nothing until it is resumed; {plural(seen.ready, 'item')} wait"
        yield Condition(word="PAUSED", why=why)
    idle = _idle_seconds(report)
    if idle is not None and idle >= report.window.total_seconds():
        why = f"{plural(seen.runnable, 'item')} could run, and nobody claimed for {duration(idle)}"
        yield Condition(word="STUCK", why=why)
    failures = sum(point.failures for point in report.retries)
    died = sum(point.dead for point in report.retries)
    if died or failures > seen.done_in_window:
        within = lasting(report.window.total_seconds())
        why = f"{plural(failures, 'failure')} in {within}, {died:,} of them final; "
        yield Condition(word="FAILING", why=f"{why}{seen.done_in_window:,} done")


def _idle_seconds(report: Vitals) -> float | None:
    """Return for how long items could run and nobody took one; ``None`` where somebody works."""
    seen = report.overview
    works = any(one.items and one.liveness is Liveness.ALIVE for one in report.workers)
    if works or seen.runnable_since is None:
        return None
    times = (seen.runnable_since, seen.last_claim_at, seen.last_ack_at)
    return (report.as_of - max(at for at in times if at is not None)).total_seconds()


def _calm(report: Vitals) -> str:
    seen = report.overview
    if not seen.ready and not seen.claimed:
        return "nothing is open"
    return f"{plural(seen.ready, 'item')} wait, {seen.claimed:,} in flight"
