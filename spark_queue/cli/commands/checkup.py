"""The doctor: what is wrong with some queues, and an exit code that a deploy can wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from spark_queue.checks import seconds
from spark_queue.cli import exits
from spark_queue.cli.command import looking
from spark_queue.cli.exits import Exit
from spark_queue.cli.scope import Scope
from spark_queue.cli.shown import show_findings
from spark_queue.cli.shown.plain import plain

if TYPE_CHECKING:
    from spark_queue.doctor.finding import Checkup
    from spark_queue.doctor.thresholds import Thresholds


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """From where on something is worth a word; in seconds where it is a time."""

    oldest: Annotated[
        float | None, Option(help="Seconds that an item may wait; for ever if not given.")
    ] = None
    idle: Annotated[
        float | None, Option(help="Seconds that nobody may claim while items could run.")
    ] = None
    retention: Annotated[
        float | None, Option(help="Seconds that finished items are kept; for ever if not given.")
    ] = None
    window: Annotated[
        float | None, Option(help="Seconds that failures and dead letters are looked back at.")
    ] = None

    def thresholds(self) -> Thresholds:
        """Return them, with defaults for what is not given."""
        from spark_queue.doctor.thresholds import Thresholds  # noqa: PLC0415 - help is quick

        usual = Thresholds()
        return Thresholds(
            oldest=None if self.oldest is None else seconds("oldest", self.oldest),
            idle=usual.idle if self.idle is None else seconds("idle", self.idle),
            retention=None if self.retention is None else seconds("retention", self.retention),
            window=usual.window if self.window is None else seconds("window", self.window),
        )


@looking
def doctor(
    scope: Scope,
    queues: Annotated[list[str], Argument(help="Queues: paths, or table names of the catalog.")],
    *,
    limits: LimitOptions,
) -> None:
    """Say what is wrong with queues, since when, and which command mends it; write nothing.

    The exit code is 0 where nothing is, 4 after a warning or where a check could not be made, and
    5 after an error. A queue that cannot be examined is told after the others, with its own code.
    """
    asked = limits.thresholds()
    found: list[Checkup] = []
    failed = scope.run_each({name: partial(_examine, scope, name, asked, found) for name in queues})
    code = int(exit_of(found, list(failed.values())))
    shown: dict[str, Any] = {"exit": code, "queues": [plain(one) for one in found]}
    if failed:
        shown["failed"] = [_failure(name, exc) for name, exc in failed.items()]
    scope.display.show(shown, *show_findings.checkups(shown))
    if code:
        raise typer.Exit(code)


def _examine(scope: Scope, name: str, limits: Thresholds, found: list[Checkup]) -> None:
    found.append(scope.engine(name).examine(scope, name, limits))


def _failure(name: str, exc: Exception) -> dict[str, str]:
    return {"queue": name, "error": type(exc).__name__, "message": exits.message_of(exc)}


def exit_of(found: Sequence[Checkup], failed: Sequence[Exception] = ()) -> Exit:
    """Return what a deploy is told: the worst of all queues."""
    worst = {checkup.worst for checkup in found}
    if "error" in worst:
        return Exit.UNSOUND
    if failed:
        return exits.exit_of(failed[0])
    left = any(checkup.unchecked for checkup in found)
    return Exit.WARNED if "warning" in worst or left else Exit.OK
