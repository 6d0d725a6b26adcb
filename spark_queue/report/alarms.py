"""Alarms: findings from the panels of a queue's report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from spark_queue.report.commands import command_on, redrive_command
from spark_queue.report.finding import (
    Finding,
    Thresholds,
    how_bad,
    list_names,
    require_thresholds,
    span,
)
from spark_queue.report.key_alarms import key_paused, limit_full
from spark_queue.report.lines import HeldGroup, RetryPoint, WorkerLine
from spark_queue.report.model import StarvingKey, StuckItem, Vitals
from spark_queue.report.paced import rate_below_inflow, rate_clocks, rate_unreached
from spark_queue.results import Liveness
from spark_queue.wording import agree, plural

#: Looks at a report, and yields what it finds.
Alarm = Callable[[Vitals, Thresholds], Iterator[Finding]]

#: How many signs of an error are shown.
_CHARS = 120

#: Why an item is not done that others wait for, where it is not for want of workers.
_GOES_ON = ("leased", "delayed")

#: Who holds items without a name.
_UNNAMED = "an unnamed worker"

#: Keys whose weight one command raises: who has more starves many on purpose.
_FED = 20


def ring(report: Vitals, thresholds: Thresholds | None = None) -> list[Finding]:
    """Return the findings of all alarms, the worst first.

    Parameters
    ----------
    thresholds : Thresholds, optional
        From where on something is worth a word.
    """
    wanted = require_thresholds(thresholds)
    found = [one for alarm in ALARMS.values() for one in alarm(report, wanted)]
    return sorted(found, key=how_bad)


def find_paused(report: Vitals, _thresholds: Thresholds) -> Iterator[Finding]:
    """Find a pause."""
    if not report.paused:
        return
    by = f" by {report.service.paused_by}" if report.service.paused_by else ""
    yield _warn(
        report,
        "paused",
        f"claims get nothing: it was paused{by}, and {_waiting(report.overview.ready)}",
        report.service.paused_at,
        command_on(report, "resume"),
    )


def workers_gone(report: Vitals, _thresholds: Thresholds) -> Iterator[Finding]:
    """Find items of dead workers that no later claim has taken."""
    gone = [one for one in report.workers if one.items and one.liveness is Liveness.GONE]
    if not gone:
        return
    are, its = agree(len(gone), "is", "are"), agree(len(gone), "its", "their")
    items = sum(one.items for one in gone)
    waits = (
        f"{its} {_waiting(items)} for the next claim{', but the queue is paused' * report.paused}"
    )
    yield _warn(
        report,
        "workers-gone",
        f"{_names(gone)} {are} gone; {waits}",
        min((one.since for one in gone if one.since), default=None),
        _worker_command(report),
    )


def leases_overdue(report: Vitals, thresholds: Thresholds) -> Iterator[Finding]:
    """Find items whose lease ran out, which no claim has taken since."""
    least = report.as_of - thresholds.lease_overrun
    late = [
        one
        for one in report.workers
        if one.liveness is Liveness.LATE and one.until and one.until <= least
    ]
    if not late:
        return
    count = sum(one.late for one in late)
    why = "the queue is paused" if report.paused else "no worker claims"
    its = agree(count, "its item waits", "their items wait")
    yield _warn(
        report,
        "leases-overdue",
        f"{plural(count, 'lease')} of {_names(late)} ran out, and {its}: {why}",
        min(one.until for one in late if one.until),
        _worker_command(report),
    )


def nobody_claims(report: Vitals, thresholds: Thresholds) -> Iterator[Finding]:
    """Find items that could run, but were not claimed for too long.

    A front that holds the queue claims nothing: its items are in the log once they are done.
    """
    since = None if report.service.has_front else _idle_since(report)
    if since is None or report.as_of - since < thresholds.idle:
        return
    yield _warn(
        report,
        "nobody-claims",
        f"{plural(report.overview.runnable, 'item')} could run, and no worker has claimed for "
        f"{span(report.as_of - since)}; {_who_lives(report)}",
        since,
        _worker_command(report),
    )


def _idle_since(report: Vitals) -> datetime | None:
    """Return when claims stopped while items could run; ``None`` while workers work."""
    seen = report.overview
    works = any(one.items and one.liveness is Liveness.ALIVE for one in report.workers)
    if works or seen.runnable_since is None:
        return None
    resumed = report.service.resumed_at
    times = (seen.runnable_since, seen.last_claim_at, seen.last_ack_at, resumed)
    return max(at for at in times if at is not None)


def _who_lives(report: Vitals) -> str:
    running = report.service.running
    if running is None:
        return "no lease is in force"
    if not running:
        return "no worker is alive"
    what, are = agree(len(running), "process", "processes"), agree(len(running), "is", "are")
    return f"worker {what} {list_names([str(pid) for pid in running])} {are} alive"


def retry_storm(report: Vitals, thresholds: Thresholds) -> Iterator[Finding]:
    """Find more failures than successes, and many of them."""
    failures = sum(point.failures for point in report.retries)
    done = report.overview.done_in_window
    if failures < thresholds.failures or failures <= done:
        return
    most = report.errors[0]
    yield _warn(
        report,
        "retry-storm",
        f"{plural(failures, 'attempt')} failed in {span(report.window)}, and {done:,} went well; "
        f"{most.in_window:,} with: {most.wording[:_CHARS]}",
        _first_failure(report.retries),
        command_on(report, "pause"),
    )


def _first_failure(points: Sequence[RetryPoint]) -> datetime:
    """Return when the first part of the window with failures began."""
    return next(point.at for point in points if point.failures)


def dead_growing(report: Vitals, thresholds: Thresholds) -> Iterator[Finding]:
    """Find items that died of late, and were not enqueued again since."""
    dead = report.overview.dead_in_window
    if dead < thresholds.dead:
        return
    worst = max(report.errors, key=lambda one: one.dead_in_window, default=None)
    said, mends = "", ""
    if worst is not None and worst.dead_in_window:
        said = f", {_share(worst.dead_in_window, dead)}: {worst.wording[:_CHARS]}"
        mends = redrive_command(report.queue, report.reader, worst.wording)
    yield _warn(
        report,
        "dead-growing",
        f"{plural(dead, 'item')} died in {span(report.window)}{said}",
        report.overview.dead_since,
        mends or command_on(report, "dead"),
    )


def _share(part: int, dead: int) -> str:
    if part < dead:
        return f"{part:,} of them with"
    return agree(dead, "with", "all of them with")


def held_long(report: Vitals, _thresholds: Thresholds) -> Iterator[Finding]:
    """Find items whose lease was renewed many times: their handlers are slow, or hang."""
    held = [one for one in report.stuck if one.lease is not None]
    if not held:
        return
    first = held[0]
    lease = span(timedelta(seconds=first.lease or 0))
    yield _warn(
        report,
        "held-long",
        f"item {first.seq} has been held for {span(report.as_of - first.since)} by "
        f"{first.worker_id or _UNNAMED}, with a lease of {lease}{_likewise(held)}",
        first.since,
        _show(report, first.seq),
    )


def given_back(report: Vitals, _thresholds: Thresholds) -> Iterator[Finding]:
    """Find items that are claimed and given back, again and again, and never tried."""
    found = [one for one in report.stuck if one.given_back]
    if not found:
        return
    worst = max(found, key=lambda one: (one.given_back, -one.seq))
    yield _warn(
        report,
        "given-back",
        f"item {worst.seq} was given back untouched {worst.given_back:,} times{_likewise(found)}",
        worst.since,
        _show(report, worst.seq),
    )


def _likewise(found: Sequence[StuckItem]) -> str:
    return f"; likewise {plural(len(found) - 1, 'other')}" if len(found) > 1 else ""


def tenant_starves(report: Vitals, _thresholds: Thresholds) -> Iterator[Finding]:
    """Find fair keys whose items could run, but that get almost no turns."""
    if report.paused or not report.starving:
        return
    first, *others = report.starving
    told = plural(first.turns, "turn") if first.turns else "no turn"
    more = f"; likewise {list_names([_name(key.fair_key) for key in others])}" if others else ""
    yield _warn(
        report,
        "tenant-starves",
        f"{_name(first.fair_key)} got {told} in {span(report.window)}, others got "
        f"{first.turns_of_others:,}; {_runnable(first.items)}{more}",
        first.since,
        _feed(report, report.starving),
    )


def _feed(report: Vitals, keys: Sequence[StarvingKey]) -> str:
    """Return what gives keys their turns again, where weights keep them; or tells what does."""
    weights = report.service.weights
    light = [key.fair_key for key in keys if weights.get(key.fair_key or "", 1.0) < 1]
    words = [word for key in light[:_FED] for word in ("--weight", f"{key}=1")]
    raised = command_on(report, "configure", *words) if words else ""
    return raised or command_on(report, "explain", str(keys[0].seq))


def _name(key: str | None) -> str:
    return "what has no fair key" if key is None else f"tenant {key!r}"


def priority_starves(report: Vitals, _thresholds: Thresholds) -> Iterator[Finding]:
    """Find priorities whose items could run, but whose turns go to higher ones."""
    # A tenant that starves by its priority has a finding.
    known = {key.seq for key in report.starving}
    found = [one for one in report.outranked if one.seq not in known]
    if report.paused or not found:
        return
    first, *others = found
    more = f"; likewise {plural(len(others), 'other')}" if others else ""
    yield _warn(
        report,
        "priority-starves",
        f"priority {first.priority} got no turn in {span(report.window)}, higher ones got "
        f"{first.turns_above:,}; {_runnable(first.items)}{more}",
        first.since,
        command_on(report, "explain", str(first.seq)),
    )


def group_starves(report: Vitals, _thresholds: Thresholds) -> Iterator[Finding]:
    """Find groups that wait for one of their own for too long."""
    held = [one for one in report.groups if _starves(report, one)]
    if not held:
        return
    first, *others = held
    error = f", failed with: {first.error[:_CHARS]}" if first.error else ""
    lost = f", was lost {plural(first.losses, 'time')}" if first.losses else ""
    more = f"; likewise {list_names([repr(one.group_key) for one in others])}" if others else ""
    state = f"{first.why} by one that is {first.liveness.value}" if first.liveness else first.why
    yield _warn(
        report,
        "group-starves",
        f"{plural(first.behind, 'item')} of group {first.group_key!r} "
        f"{agree(first.behind, 'waits', 'wait')} for item {first.head}, "
        f"which is {state}{error}{lost}{more}",
        report.as_of - timedelta(seconds=max(one.oldest_age for one in held)),
        _free(report, first),
    )


def _starves(report: Vitals, one: HeldGroup) -> bool:
    """Whether others wait for an item that is retried or renewed again and again."""
    if one.why not in _GOES_ON or one.oldest_age < report.window.total_seconds():
        return False
    return one.attempts + one.losses > 0 or one.since <= report.as_of - report.window


def _free(report: Vitals, group: HeldGroup) -> str:
    """Return a command that frees a group, or shows the item at its head."""
    if group.liveness is None:
        return command_on(report, "cancel", "--where", f"_seq = {group.head}")
    return _worker_command(report) if group.liveness is Liveness.GONE else _show(report, group.head)


def items_too_old(report: Vitals, thresholds: Thresholds) -> Iterator[Finding]:
    """Find items that have waited longer than they may since their time came."""
    longest = report.waits_longest
    if (
        thresholds.oldest is None
        or longest is None
        or report.as_of - longest.since <= thresholds.oldest
    ):
        return
    age = span(report.as_of - longest.since)
    yield _warn(
        report,
        "items-too-old",
        f"item {longest.seq} has waited for {age}, and is {longest.reason}",
        longest.since + thresholds.oldest,
        command_on(report, "explain", str(longest.seq)),
    )


def _warn(report: Vitals, name: str, what: str, since: datetime | None, command: str) -> Finding:
    return Finding(
        id=name,
        severity="warning",
        what=what,
        since=since,
        command=command,
        reader=report.reader,
    )


def _waiting(items: int) -> str:
    return f"{plural(items, 'item')} {agree(items, 'waits', 'wait')}"


def _runnable(items: int) -> str:
    return f"{items:,} of its items could run"


def _names(workers: Sequence[WorkerLine]) -> str:
    return list_names([one.worker_id or _UNNAMED for one in workers])


def _show(report: Vitals, seq: int) -> str:
    return command_on(report, "report", "--item", str(seq))


def _worker_command(report: Vitals) -> str:
    """Return the command that has items claimed again: a resume, or a worker."""
    if report.paused:
        return command_on(report, "resume")
    return command_on(report, "process", "MODULE:FUNCTION")


#: By the word for what they find; of two that are as bad, the first is the headline.
ALARMS: Mapping[str, Alarm] = {
    "paused": find_paused,
    "workers-gone": workers_gone,
    "leases-overdue": leases_overdue,
    "nobody-claims": nobody_claims,
    "retry-storm": retry_storm,
    "dead-growing": dead_growing,
    "held-long": held_long,
    "given-back": given_back,
    "group-starves": group_starves,
    "tenant-starves": tenant_starves,
    "priority-starves": priority_starves,
    "limit-full": limit_full,
    "key-paused": key_paused,
    "rate-unreached": rate_unreached,
    "rate-below-inflow": rate_below_inflow,
    "rate-clocks": rate_clocks,
    "items-too-old": items_too_old,
}
