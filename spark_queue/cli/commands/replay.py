"""``spark-queue replay``: real work, of a trace or of a queue, in other orders of service."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from typer import Argument, Option

from spark_queue.cli.command import ReaderOption, command
from spark_queue.cli.commands.setting_commands import RehearsedOptions
from spark_queue.cli.display import Whole, compact_table, text_of
from spark_queue.cli.scope import Scope
from spark_queue.cli.words import plain
from spark_queue.config_changes import changes
from spark_queue.errors import InvalidArgumentError

if TYPE_CHECKING:
    from spark_queue.replay import Replay

_FIGURES = (("p50", "wait_p50"), ("p95", "wait_p95"), ("max", "wait_max"), ("slowdown", "slowdown"))


@command
def replay(
    scope: Scope,
    work: Annotated[
        str, Argument(help="A trace in the standard workload format, or a queue with a past.")
    ],
    servers: Annotated[
        int | None,
        Option(min=1, help="How many run at a time: 2 of a trace, of a queue as many as ever did."),
    ] = None,
    *,
    orders: RehearsedOptions,
    reader: ReaderOption = None,
    plot: Annotated[
        Path | None, Option(help="Write a picture of a trace to this file (.png).")
    ] = None,
    users: Annotated[int, Option(min=1, help="How many users, or keys, to show.")] = 10,
) -> None:
    """Play what came once more, in other orders or under other settings, and compare the waits.

    A trace is played as it came, fair, weighted, and by cost; without weights, those who asked for
    little count double in the weighted order. Its keys are users, and no other setting applies. A
    queue is played under its own configuration and under another one, with the arrivals and the
    work that its logs have; nothing is written. Time is simulated. Shown are those who waited
    longest.
    """
    settings = orders.settings()
    if Path(work).is_file() or work.endswith((".swf", ".gz")):
        if settings.keys() - {"weights"} or reader is not None:
            raise InvalidArgumentError(
                f"{work!r} is a trace: it has no settings, groups or readers"
            )
        _trace(scope, Path(work), servers or 2, settings.get("weights"), plot, users)
        return
    if plot is not None:
        raise InvalidArgumentError("a picture is drawn of a trace: leave --plot out")
    _rehearse(scope, work, reader, servers, settings, users)


def _rehearse(
    scope: Scope,
    name: str,
    reader: str | None,
    servers: int | None,
    asked: Mapping[str, Any],
    shown: int,
) -> None:
    from spark_queue.cli.show_rehearsal import render_rehearsal  # noqa: PLC0415 - help is quick
    from spark_queue.replay import history, rehearse  # noqa: PLC0415 - help is quick

    queue = scope.open_queue(name, reader)[1]
    past = history(queue)
    settings = changes(past.config, asked)
    done = rehearse(past, workers=servers, **settings)
    scope.display.show(done, *render_rehearsal(plain(done), shown))


def _trace(
    scope: Scope,
    trace: Path,
    servers: int,
    weights: Mapping[str, float] | None,
    plot: Path | None,
    users: int,
) -> None:
    from spark_queue.replay import (  # noqa: PLC0415 - help is quick
        ORDERS,
        read_swf,
        replay as run,
    )

    jobs = read_swf(trace)
    _require_users(weights or {}, {job.user for job in jobs})
    console = scope.display.screen()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, disable=console.quiet
    ) as bar:
        tasks = {order: bar.add_task(order, total=len(jobs)) for order in ORDERS}
        done = run(
            jobs,
            servers,
            weights=weights,
            on_progress=lambda order, begun: bar.update(tasks[order], completed=begun),
        )
    if plot is not None:
        from spark_queue.replay.summary import save  # noqa: PLC0415 - an extra

        save(done, plot)
    scope.display.show(done, _table(done, users), *_lines(done, plot))


def _require_users(weights: Mapping[str, float], known: set[str]) -> None:
    for user in weights:
        if user not in known:
            raise InvalidArgumentError(f"weight is given to {user!r}: the trace has no such user")


def _table(done: Replay, users: int) -> Table:
    """Show each user's waits in one order below the other: side by side they need a wide screen."""
    figures = {head: "right" for head, _ in _FIGURES}
    table = compact_table(user="fold", jobs="right", order="left", **figures)
    table.title, table.title_justify = "seconds waited", "left"
    found = done.by_order()
    for user in done.worst_users(users):
        who = (text_of(user), f"{found[done.orders[0].order][user].jobs:,}")
        for order in done.orders:
            waits = found[order.order][user]
            cells = (f"{getattr(waits, field):,.0f}" for _, field in _FIGURES)
            table.add_row(*who, order.order, *cells)
            who = (text_of(""), "")
        table.add_section()
    return table


def _lines(done: Replay, plot: Path | None) -> list[str]:
    median = ", ".join(f"{order.order} {order.median_p95:,.0f} s" for order in done.orders)
    slow = ", ".join(f"{order.order} {order.mean_slowdown:,.1f}" for order in done.orders)
    work = {round(order.work) for order in done.orders}
    lines = [
        f"half of the users have a p95 below: {median}",
        f"mean slowdown of users: {slow}",
        f"work done: {', '.join(f'{seconds:,} s' for seconds in sorted(work))} in every order",
    ]
    if plot is not None:
        lines.append(Whole(f"picture: {plot}"))
    return lines
