"""Words for a queue: its condition by its worst finding, its speed, and the time left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from spark_queue.flow import Pause
from spark_queue.report.finding import Finding, how_bad, list_names
from spark_queue.report.lines import Overview
from spark_queue.report.model import Vitals
from spark_queue.report.rate_lines import RateLine
from spark_queue.wording import agree, duration, instant, lasting, plural

#: The words, the worst first.
Word = Literal["BROKEN", "PAUSED", "STALLED", "FAILING", "WARNING", "OK"]

#: The signs beside them, as the style has them, too.
SIGNS: Mapping[Word, str] = {
    "BROKEN": "✕",
    "PAUSED": "‖",
    "STALLED": "■",
    "FAILING": "▲",
    "WARNING": "!",
    "OK": "✓",
}

#: What findings of an alarm come to; of a check of tables it is WARNING.
_WORDS: Mapping[str, Word] = {
    "paused": "PAUSED",
    "workers-gone": "STALLED",
    "leases-overdue": "STALLED",
    "nobody-claims": "STALLED",
    "retry-storm": "FAILING",
    "dead-growing": "FAILING",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """How a queue does."""

    word: Word
    why: str
    """In a sentence without a full stop."""

    def __str__(self) -> str:
        return f"{SIGNS[self.word]} {self.word}: {self.why}"


def judge_condition(report: Vitals, others: Iterable[Finding] = ()) -> Condition:
    """Say how a queue does: by its worst finding, or that there is none.

    Parameters
    ----------
    others : iterable of Finding
        What a checkup found of its tables.
    """
    found = sorted((*report.findings(), *others), key=how_bad)
    worst = next((one for one in found if one.severity != "info"), None)
    if worst is None:
        return Condition(word="OK", why=_calm(report))
    if worst.severity == "error":
        return Condition(word="BROKEN", why=worst.what)
    return Condition(word=_WORDS.get(worst.id, "WARNING"), why=worst.what)


def _calm(report: Vitals) -> str:
    seen = report.overview
    if not seen.ready and not seen.claimed:
        return "nothing is open"
    waits = agree(seen.ready, "waits", "wait")
    return f"{plural(seen.ready, 'item')} {waits}, {seen.claimed:,} in flight"


def kept_back(report: Vitals) -> tuple[str, ...]:
    """Return a line for each way in which keys are kept back: which, how many, and until when."""
    seen, paused = report.overview, [_pause_text(one) for one in report.paused_keys]
    lines = [f"paused: {list_names(paused)}"] if paused else []
    if seen.over_a_key_limit:
        waits = agree(seen.over_a_key_limit, "waits", "wait")
        keys = plural(seen.keys_at_a_limit, "key")
        lines.append(f"{plural(seen.over_a_key_limit, 'item')} of {keys} {waits} for a limit")
    lines += [_paced_text(one, report.as_of) for one in report.pacing]
    return tuple(lines)


def _pause_text(one: Pause) -> str:
    until = "it is resumed" if one.until is None else instant(one.until)
    return f"{one.by} {one.key!r} until {until}"


def _paced_text(rate: RateLine, now: datetime) -> str:
    first = rate.keys[0]
    wait = lasting((first.next_at - now).total_seconds())
    if rate.by is None:
        return f"the queue may start {rate.allows}, the next in {wait}"
    lack = f"{plural(rate.paced, 'key')} {agree(rate.paced, 'lacks', 'lack')} units"
    return f"{lack} of the rate by {rate.by}; the next of {first.key!r} may start in {wait}"


def claim_size(report: Vitals) -> Iterator[str]:
    """Say how long the newest claim was to be, and why, where its length was measured."""
    if report.service.claim_size is not None:
        yield f"the last claim got {report.service.claim_size}"


def fewer_start(seen: Overview) -> Iterator[str]:
    """Say that runnable items are counted too high, where they are."""
    if seen.judges_each and seen.runnable:
        yield "each item is judged by itself: fewer may start"


def window_text(report: Vitals) -> str:
    """Return the length of the part of the window that has items."""
    seconds = report.overview.seconds
    return lasting(report.window.total_seconds() if seconds is None else seconds)


def speed(within: float | None, now: float | None) -> str:
    """Return how many a second there were in the window and of now; nothing for none."""
    if not within:
        return ""
    return f", {within:,.2f} a second" + ("" if now is None else f"; now {now:,.2f}")


#: What there is to say where open items do not fall.
_TRENDS = {
    "done": "nothing is open",
    "rises": "never: open items rise",
    "stays": "unknown: nothing has ended in the last minutes",
}


def time_left(seen: Overview) -> str:
    """Say how long it takes until nothing is open."""
    return _TRENDS.get(seen.trend) or f"{duration(seen.time_left)}, {time_range(seen)}"


def time_range(seen: Overview) -> str:
    """Return the range of the time until no item is open."""
    least, most = duration(seen.time_left_least), duration(seen.time_left_most)
    return f"from {least} to {most}" if most else "or more: nothing ended just now"
