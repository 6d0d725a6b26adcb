"""A real trace, played by turns, as jobs came, and by the rule that Amazon publishes for SQS.

The trace is that of the tests (``tests/data``): 18,239 jobs of 69 users on a machine of NASA, from
1993. Time is a thousandth of what it was, so that a job is as long as a message takes; jobs are
then stretched until the servers, each of which runs one of them at a time, are as busy as it says.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from report import Figure
from spark_queue.replay.play import Job, Run, play, read_swf, run
from spark_queue.replay.summary import UserSummary, by_user, percentile
from spark_queue.rules.rule_model import NewItem

#: Where the trace is.
TRACE = Path(__file__).parents[2] / "tests" / "data" / "NASA-iPSC-1993-3.1-cln.swf.gz"

#: How many times faster time goes.
_FASTER = 1_000

#: Servers, and which share of their time they work.
_LOADS = ((40, 0.6), (100, 0.8))

#: A group is noisy that has more than this share of what is in flight, and so many messages of it;
#: or this share of the time that consumers have worked lately.
_SHARE, _MESSAGES = 0.1, 30

#: Seconds without a message after which a group is noisy no longer. It does not say what *lately*
#: is; here it is the same.
_SILENCE = 300.0


@dataclass
class _Group:
    waiting: deque[tuple[int, Job]] = field(default_factory=deque)
    sent: float = 0.0
    running: int = 0
    spans: deque[tuple[float, float]] = field(default_factory=deque)
    """When its messages of late began and will end."""

    def worked(self, since: float, now: float) -> float:
        """Return the seconds that consumers have worked for it."""
        while self.spans and self.spans[0][1] < since:
            self.spans.popleft()
        return sum(min(end, now) - max(began, since) for began, end in self.spans if end > since)


@dataclass
class _Grant:
    items: list[_Message]
    lease: int = 0


@dataclass(frozen=True)
class _Message:
    seq: int
    payload: Job


class NoisyNeighbours:
    """Messages of quiet groups first, as they came; then those of who has the fewest in flight.

    As of "How Amazon SQS fair queues work" in Amazon's guide to SQS, which calls its own bounds
    approximate. Only what ``run`` needs of a scheduler is here.
    """

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._running: dict[int, str] = {}
        self._came = 0

    def admit(self, items: Sequence[NewItem], now: float) -> None:
        """Take messages."""
        for item in items:
            group = self._groups.setdefault(str(item.fair_key), _Group())
            group.waiting.append((self._came, item.payload))  # type: ignore[arg-type]
            group.sent = now
            self._came += 1

    def claim(self, now: float, limit: int) -> _Grant:
        """Hand out messages."""
        return _Grant([self._next(now) for _ in range(min(limit, self._waiting()))])

    def settle(self, lease: int, ends: dict[int, Any], now: float) -> None:
        """Take back messages that are done."""
        del lease, now
        for seq in ends:
            self._groups[self._running.pop(seq)].running -= 1

    def _waiting(self) -> int:
        return sum(len(group.waiting) for group in self._groups.values())

    def _next(self, now: float) -> _Message:
        noisy = self._noisy(now)
        waiting = [name for name, group in self._groups.items() if group.waiting]
        chosen = min(waiting, key=lambda name: self._rank(name, noisy))
        group = self._groups[chosen]
        seq, job = group.waiting.popleft()
        group.running += 1
        group.spans.append((now, now + job.runs_for))
        self._running[seq] = chosen
        return _Message(seq, job)

    def _rank(self, name: str, noisy: set[str]) -> tuple[bool, int, int]:
        group = self._groups[name]
        return name in noisy, group.running if name in noisy else 0, group.waiting[0][0]

    def _noisy(self, now: float) -> set[str]:
        since = now - _SILENCE
        worked = Counter({name: group.worked(since, now) for name, group in self._groups.items()})
        running, total = len(self._running), worked.total()
        return {
            name
            for name, group in self._groups.items()
            if group.sent > since
            and (
                (group.running >= _MESSAGES and group.running > _SHARE * running)
                or worked[name] > _SHARE * total
            )
        }


def trace(swf: Path = TRACE) -> Iterator[Figure]:
    """Play the trace, and tell how long users wait: half of them, the worst, and the quiet half."""
    recorded = read_swf(swf)
    for servers, load in _LOADS:
        jobs = _stretch(recorded, servers, load)
        detail = (
            f"{len(jobs):,} jobs on {servers} servers at a load of {load}, 95 % of a user's waits"
        )
        for order, runs in _played(jobs, servers):
            users = by_user(runs)
            quiet = sorted(users, key=lambda user: user.jobs)[: len(users) // 2]
            name = f"trace.{servers}.{order}"
            yield Figure(
                f"{name}.users", _half(users), None, "s", f"{detail}, of half of the users"
            )
            worst = max(user.wait_p95 for user in users)
            yield Figure(
                f"{name}.worst", worst, None, "s", f"{detail}, of the one who waits longest"
            )
            yield Figure(
                f"{name}.quiet", _half(quiet), None, "s", f"{detail}, of half of the quiet half"
            )


def _half(users: Sequence[UserSummary]) -> float:
    return percentile(sorted(user.wait_p95 for user in users), 0.5)


def _stretch(jobs: Sequence[Job], servers: int, load: float) -> list[Job]:
    """Return jobs of a faster time, so long that they keep servers as busy as it says."""
    busy = sum(job.runs_for for job in jobs) / max(job.submitted for job in jobs)
    longer = servers * load / busy
    return [
        replace(job, submitted=job.submitted / _FASTER, runs_for=job.runs_for * longer / _FASTER)
        for job in jobs
    ]


def _played(jobs: Sequence[Job], servers: int) -> Iterator[tuple[str, list[Run[Job]]]]:
    yield "came", play(jobs, servers, "fifo")
    yield "turns", play(jobs, servers, "fair")
    rule: Any = NoisyNeighbours()
    yield "sqs", run(jobs, servers, rule, lambda job: NewItem(payload=job, fair_key=job.user))
