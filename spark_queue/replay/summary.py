"""Summary of a replay: each user's wait, by order of service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from spark_queue import checks
from spark_queue.errors import InvalidArgumentError
from spark_queue.replay.play import ORDERS, Job, Order, Run, play, require_play
from spark_queue.wording import in_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A job shorter than this counts as this long in a slowdown, as is usual for batch jobs: a second
#: of waiting is nothing to a job of no time.
_SHORTEST = 10.0

_AnyJob = TypeVar("_AnyJob", bound=Job)

#: How many users a table shows.
SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSummary:
    """How one user fared in one order. Times are seconds."""

    user: str
    jobs: int
    wait_p50: float
    wait_p95: float
    wait_max: float
    slowdown: float
    """Mean of (wait + run) / run, at least 1; a run counts as ten seconds at least (bounded)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderSummary:
    """How all users fared in one order."""

    order: Order
    users: tuple[UserSummary, ...]
    """By name."""
    work: float
    """Seconds that all jobs ran together: the same in every order."""
    makespan: float
    """Seconds from the first submission to the last end."""
    median_p95: float
    """The ``wait_p95`` that half of the users stay below."""
    worst_p95: float
    """The longest ``wait_p95`` of a user: in a fair order that of who asks for most."""
    mean_slowdown: float
    """Mean of the users' slowdowns: each user counts once, however many jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A trace in several orders."""

    jobs: int
    servers: int
    orders: tuple[OrderSummary, ...]

    def by_order(self) -> dict[Order, dict[str, UserSummary]]:
        """Return each user's summary, by order and name."""
        return {order.order: {user.user: user for user in order.users} for order in self.orders}

    def worst_users(self, count: int = SHOWN) -> list[str]:
        """Return the users who waited longest in the first order."""
        checks.require_seq("count", count)
        users = sorted(self.orders[0].users, key=lambda user: (-user.wait_p95, user.user))
        return [user.user for user in users[:count]]

    def _repr_html_(self) -> str:
        names = [order.order for order in self.orders]
        found = self.by_order()
        head = "".join(f"<th>{name}</th>" for name in names)
        rows = "".join(
            f"<tr><td>{in_html(user)}</td>"
            + "".join(f"<td>{found[name][user].wait_p95:,.0f}</td>" for name in names)
            + "</tr>"
            for user in self.worst_users()
        )
        return (
            f"<b>{self.jobs:,}</b> jobs on <b>{self.servers}</b> servers; wait in seconds, 95 % of "
            f"each user's jobs<table><tr><th>user</th>{head}</tr>{rows}</table>"
        )


def replay(
    jobs: Sequence[Job],
    servers: int,
    *,
    orders: Sequence[Order] = ORDERS,
    weights: Mapping[str, float] | None = None,
    on_progress: Callable[[Order, int], None] | None = None,
) -> Replay:
    """Play a trace in several orders and compare what the users waited.

    Parameters
    ----------
    jobs : sequence of Job
        The trace.
    servers : int
        How many jobs may run at a time.
    orders : sequence of str
        Which orders to play; all by default.
    weights : mapping of str to float, optional
        For ``"weighted"``; by default users of the lighter half of all work count double.
    on_progress : callable, optional
        Gets the order and the number of jobs that have begun.

    Raises
    ------
    InvalidArgumentError
        When there are no jobs, no servers, or an order is unknown.
    """
    require_play(jobs, servers, weights, on_progress)
    checks.require_several("orders", orders)
    for order in orders:
        checks.require_choice("order", order, ORDERS)
    if not jobs:
        raise InvalidArgumentError("there are no jobs to play")
    weighed = lighter_half(jobs) if weights is None else weights
    summaries = []
    for order in orders:
        told = None if on_progress is None else partial(on_progress, order)
        used = weighed if order == "weighted" else weights
        runs = play(jobs, servers, order, weights=used, on_progress=told)
        summaries.append(summarise(order, runs))
    return Replay(jobs=len(jobs), servers=servers, orders=tuple(summaries))


def lighter_half(jobs: Sequence[Job]) -> dict[str, float]:
    """Give a weight of 2 to the users who together asked for no more than half of the work."""
    work: dict[str, float] = {}
    for job in jobs:
        work[job.user] = work.get(job.user, 0.0) + job.runs_for
    half, sum_so_far = sum(work.values()) / 2, 0.0
    weights = {}
    for user in sorted(work, key=lambda user: (work[user], user)):
        sum_so_far += work[user]
        if sum_so_far > half:
            break
        weights[user] = 2.0
    return weights


def by_user(runs: Iterable[Run[_AnyJob]]) -> tuple[UserSummary, ...]:
    """Sum up the runs of each user, by name."""
    found: dict[str, list[Run[_AnyJob]]] = {}
    for run in runs:
        found.setdefault(run.job.user, []).append(run)
    return tuple(_user(name, found[name]) for name in sorted(found))


def summarise(order: Order, runs: Sequence[Run[Job]]) -> OrderSummary:
    """Sum up the runs of one order."""
    users = by_user(runs)
    return OrderSummary(
        order=order,
        users=users,
        work=sum(run.job.runs_for for run in runs),
        makespan=max(run.ended for run in runs) - min(run.job.submitted for run in runs),
        median_p95=percentile(sorted(user.wait_p95 for user in users), 0.5),
        worst_p95=max(user.wait_p95 for user in users),
        mean_slowdown=sum(user.slowdown for user in users) / len(users),
    )


def _user(name: str, runs: Sequence[Run[_AnyJob]]) -> UserSummary:
    waits = sorted(run.waited for run in runs)
    slowdowns = [
        max(1.0, (run.waited + run.job.runs_for) / max(run.job.runs_for, _SHORTEST)) for run in runs
    ]
    return UserSummary(
        user=name,
        jobs=len(runs),
        wait_p50=percentile(waits, 0.5),
        wait_p95=percentile(waits, 0.95),
        wait_max=waits[-1],
        slowdown=sum(slowdowns) / len(slowdowns),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the nearest rank: the smallest value that so large a share is not above."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


#: A wait of less than a second is drawn as one: the axis is logarithmic.
_LEAST = 1.0


def figure(replay: Replay) -> Figure:
    """Draw how long 95 % of each user's jobs waited, users sorted by it, a line for each order.

    A line that lies lower on its right end is an order in which the worst off waited less.

    Raises
    ------
    InvalidArgumentError
        When matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, for plots only
    except ModuleNotFoundError as exc:
        raise InvalidArgumentError(
            "a plot needs matplotlib; pip install 'spark-queue[plots]'"
        ) from exc
    drawn = Figure(figsize=(9, 4.5), layout="constrained")
    axes = drawn.subplots()
    for order in replay.orders:
        waits = sorted(max(user.wait_p95, _LEAST) for user in order.users)
        axes.plot(range(1, len(waits) + 1), waits, label=order.order, drawstyle="steps-mid")
    axes.set_yscale("log")
    axes.set_xlabel("users, by their wait")
    axes.set_ylabel("wait of 95 % of the user's jobs (s)")
    axes.set_title(f"{replay.jobs:,} jobs on {replay.servers} servers")
    axes.legend()
    axes.grid(visible=True, alpha=0.3)
    return drawn


def png(replay: Replay) -> bytes:
    """Return the picture as a PNG, as ``IPython.display.Image`` shows it."""
    buffer = BytesIO()
    figure(replay).savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()


def save(replay: Replay, path: Path) -> None:
    """Write the picture to a file, whose name says the format (``.png``)."""
    figure(replay).savefig(path, dpi=150)
