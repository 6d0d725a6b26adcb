"""A trace, played on servers in simulated time: the scheduler decides, nothing sleeps."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Generic, Literal, TypeVar, cast

from spark_queue import checks
from spark_queue.checks import require_path
from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError
from spark_queue.rules.rule_model import Ack, NewItem
from spark_queue.rules.scheduler import Scheduler
from spark_queue.wording import shorten

#: Fields of a line; further ones follow.
_NUMBER, _SUBMITTED, _RUNS_FOR, _USER = 0, 1, 3, 11


@dataclass(frozen=True, slots=True)
class Job:
    """A piece of work: who wanted it, when, and how long it ran."""

    number: int
    user: str
    submitted: float
    """Seconds since the trace began."""
    runs_for: float
    """Seconds."""


def read_swf(path: Path | str) -> list[Job]:
    """Read the jobs of a trace, in the order of their submission; ``.gz`` is unpacked.

    Jobs whose run time is not known are left out.

    Raises
    ------
    InvalidArgumentError
        When the file is missing, or a line is no job; it names the line.
    """
    path = Path(require_path("path", path))
    if not path.is_file():
        raise InvalidArgumentError(f"trace {shorten(str(path))} is no file")
    jobs = [job for job in _jobs(path) if job.runs_for >= 0]
    if not jobs:
        raise InvalidArgumentError(f"trace {shorten(str(path))} has no job")
    return sorted(jobs, key=lambda job: (job.submitted, job.number))


def _jobs(path: Path) -> Iterator[Job]:
    for number, line in enumerate(_lines(path), start=1):
        fields = line.split()
        if not fields or fields[0].startswith(";"):
            continue
        try:
            yield Job(
                number=int(fields[_NUMBER]),
                user=fields[_USER],
                submitted=float(fields[_SUBMITTED]),
                runs_for=float(fields[_RUNS_FOR]),
            )
        except (IndexError, ValueError) as exc:
            raise InvalidArgumentError(
                f"line {number} of trace {shorten(str(path))} is no job of the standard workload "
                "format"
            ) from exc


def _lines(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        return text.decode().splitlines()
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as exc:
        raise InvalidArgumentError(f"trace {shorten(str(path))} cannot be read: {exc}") from exc


#: How the next job is chosen: as they came; a turn for each user; turns by weight; turns that cost
#: as much as the job runs.
Order = Literal["fifo", "fair", "weighted", "cost"]

ORDERS: tuple[Order, ...] = ("fifo", "fair", "weighted", "cost")

#: Longer than any trace: nothing here loses its lease.
NEVER = timedelta(days=36_500)

#: The cost of a job that took no time at all: a turn costs more than nothing.
_LEAST = 1.0


#: An instant, and what is done to a scheduler then.
Change = tuple[float, Callable[[Scheduler], object]]

_AnyJob = TypeVar("_AnyJob", bound=Job)


@dataclass(frozen=True, slots=True)
class Run(Generic[_AnyJob]):
    """When a job began to run."""

    job: _AnyJob
    began: float

    @property
    def waited(self) -> float:
        """Return the seconds from its submission."""
        return self.began - self.job.submitted

    @property
    def ended(self) -> float:
        """Return when it was done."""
        return self.began + self.job.runs_for


def play(
    jobs: Sequence[Job],
    servers: int,
    order: Order,
    *,
    weights: Mapping[str, float] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> list[Run[Job]]:
    """Run jobs on servers, each of which runs one job at a time, to its end.

    Parameters
    ----------
    jobs : sequence of Job
        In the order of their submission.
    servers : int
        How many jobs may run at a time.
    order : {"fifo", "fair", "weighted", "cost"}
        How the next job is chosen. With ``"weighted"``, by ``weights``; with ``"cost"``, a job
        takes as many turns as it runs seconds, by ``weights`` if there are any.
    weights : mapping of str to float, optional
        How many turns a user has in a round; 1 where a user is not named.
    on_progress : callable, optional
        Gets the number of jobs that have begun, now and then.

    Returns
    -------
    list of Run
        In the order in which they began.

    Raises
    ------
    InvalidArgumentError
        When there is no server, or the order is unknown.
    """
    require_play(jobs, servers, weights, on_progress)
    checks.require_choice("order", order, ORDERS)
    return run(jobs, servers, _scheduler(order, weights or {}), partial(_item, order), on_progress)


def require_play(jobs: object, servers: object, weights: object, on_progress: object) -> None:
    """Raise where the arguments cannot play jobs."""
    checks.require_sequence("jobs", jobs, Job)
    checks.require_count("servers", servers)
    checks.optional(checks.require_callable, "on_progress", on_progress)
    if weights is not None:
        checks.require_weights(weights, InvalidArgumentError)


def run(
    jobs: Sequence[_AnyJob],
    servers: int,
    scheduler: Scheduler,
    item_of: Callable[[_AnyJob], NewItem],
    on_progress: Callable[[int], None] | None = None,
    changes: Sequence[Change] = (),
) -> list[Run[_AnyJob]]:
    """Run jobs on servers as a scheduler says; as :func:`play`.

    Parameters
    ----------
    scheduler : Scheduler
        An empty one, which chooses the next item.
    item_of : callable
        Returns the item of a job; its payload is the job.
    changes : sequence of (float, callable)
        What is done to the scheduler, and when, in order.
    """
    running: list[tuple[float, int, int]] = []
    runs: list[Run[_AnyJob]] = []
    came, changed, wakes_at = 0, 0, math.inf
    while True:
        now = min(
            running[0][0] if running else math.inf,
            jobs[came].submitted if came < len(jobs) else math.inf,
            changes[changed][0] if changed < len(changes) else math.inf,
            wakes_at,
        )
        if now == math.inf or (came == len(jobs) == len(runs)):
            return runs
        while changed < len(changes) and changes[changed][0] <= now:
            changes[changed][1](scheduler)
            changed += 1
        while running and running[0][0] <= now:
            _, seq, lease = heappop(running)
            scheduler.settle(lease, {seq: Ack()}, now)
        until = _first_after(jobs, came, now)
        scheduler.admit([item_of(job) for job in jobs[came:until]], now)
        came = until
        grant = scheduler.claim(now, servers - len(running))
        wakes_at = math.inf if grant.next_at is None else grant.next_at
        for item in grant.items:
            job = cast("_AnyJob", item.payload)
            runs.append(Run(job, now))
            heappush(running, (now + job.runs_for, item.seq, grant.lease))
        if on_progress is not None and grant.items:
            on_progress(len(runs))


def _scheduler(order: Order, weights: Mapping[str, float]) -> Scheduler:
    fair = order != "fifo"
    used = dict(weights) if order in ("weighted", "cost") else {}
    config = QueueConfig(fair_key="user" if fair else None, weights=used, lease=NEVER)
    return Scheduler(config, keep_finished=False)


def _item(order: Order, job: Job) -> NewItem:
    cost = max(job.runs_for, _LEAST) if order == "cost" else 1.0
    return NewItem(payload=job, fair_key=job.user, cost=cost)


def _first_after(jobs: Sequence[Job], start: int, now: float) -> int:
    end = start
    while end < len(jobs) and jobs[end].submitted <= now:
        end += 1
    return end
