"""The doctor: faults of queues, and an exit code for deploys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from typer import Argument, Option

from spark_queue.checks import seconds
from spark_queue.cli import display, words
from spark_queue.cli.command import command
from spark_queue.cli.display import Exit, Whole
from spark_queue.cli.scope import Scope
from spark_queue.cli.words import Plain, plain

if TYPE_CHECKING:
    from spark_queue.report.finding import Checkup, Thresholds


@dataclass(frozen=True, slots=True)
class ThresholdOptions:
    """From where on something is worth a word; in seconds where it is a time."""

    oldest: Annotated[
        float | None, Option(help="Seconds that an item may wait; for ever if not given.")
    ] = None
    idle: Annotated[
        float | None, Option(help="Most seconds without a claim while items could run.")
    ] = None
    retention: Annotated[
        float | None, Option(help="Seconds that finished items are kept; for ever if not given.")
    ] = None
    window: Annotated[
        float | None, Option(help="Seconds that failures and dead letters are looked back at.")
    ] = None

    def thresholds(self) -> Thresholds:
        """Return the thresholds, with defaults for options that are not given."""
        from spark_queue.report.finding import Thresholds  # noqa: PLC0415 - help is quick

        usual = Thresholds()
        return Thresholds(
            oldest=None if self.oldest is None else seconds("oldest", self.oldest),
            idle=usual.idle if self.idle is None else seconds("idle", self.idle),
            retention=None if self.retention is None else seconds("retention", self.retention),
            window=usual.window if self.window is None else seconds("window", self.window),
        )


@command
def doctor(
    scope: Scope,
    queues: Annotated[list[str], Argument(help="Queues: paths, or table names of the catalog.")],
    *,
    options: ThresholdOptions,
) -> None:
    """Report faults of queues: since when, and the command that mends each; write nothing.

    Nothing is written. The exit code is 0 without faults, 4 after a warning or where a check could
    not be made, and 5 after an error. Queues that cannot be examined come last, with their code.
    """
    asked = options.thresholds()
    found: list[Checkup] = []
    failed = scope.run_each({name: partial(_examine, scope, name, asked, found) for name in queues})
    code = int(exit_of(found, list(failed.values())))
    shown: dict[str, Any] = {"exit": code, "queues": [plain(one) for one in found]}
    if failed:
        shown["failed"] = [_failure(name, exc) for name, exc in failed.items()]
    scope.display.show(shown, *checkups(shown))
    if code:
        raise typer.Exit(code)


def _examine(scope: Scope, name: str, thresholds: Thresholds, found: list[Checkup]) -> None:
    found.append(scope.engine(name).examine(scope, name, thresholds))


def _failure(name: str, exc: Exception) -> dict[str, str]:
    return {"queue": name, "error": type(exc).__name__, "message": display.message_of(exc)}


def exit_of(found: Sequence[Checkup], failed: Sequence[Exception] = ()) -> Exit:
    """Return the exit code: the worst of all queues."""
    worst = {checkup.worst for checkup in found}
    if "error" in worst:
        return Exit.UNSOUND
    if failed:
        return display.exit_of(failed[0])
    left = any(checkup.unchecked for checkup in found)
    return Exit.WARNED if "warning" in worst or left else Exit.OK


def checkups(data: Plain) -> list[RenderableType]:
    """Show the findings of each queue, the worst first, and queues that could not be examined."""
    lines: list[RenderableType] = [x for one in data["queues"] for x in _checkup(one)]
    for one in data.get("failed", ()):
        head = Whole(f"{one['queue']}: cannot be examined")
        lines += [head, f"    {one['message']}"]
    return lines


def _checkup(data: Plain) -> Iterator[str]:
    found, left = data["findings"], data["unchecked"]
    count = words.plural(len(found), "finding") if found else "nothing found"
    yield Whole(f"{data['queue']}: {count}")
    if data.get("storage"):
        yield f"  {_storage(data['storage'])}"
        kinds = data["storage"]["kinds"].items()
        yield f"  {', '.join(f'{what} {words.size(count)}' for what, count in kinds)}"
    for finding in found:
        yield from _finding(finding)
    for why in dict.fromkeys(left.values()):
        names = ", ".join(name for name, said in left.items() if said == why)
        yield f"  not checked: {names}"
        yield f"    {why}"


def _storage(data: Plain) -> str:
    free = "" if data["free"] is None else f", {words.size(data['free'])} free"
    due = f": an upgrade to {data['newest_format']} is due"
    is_due = data["format"] != data["newest_format"]
    return f"{words.size(data['size'])} on disk{free}; format {data['format']}{due * is_due}"


def _finding(data: Plain) -> Iterator[str]:
    since = f", since {words.instant(data['since'])}" if data["since"] else ""
    reader = f", reader {data['reader']}" if data["reader"] else ""
    yield f"  {data['severity']}: {data['id']}{reader}{since}"
    yield f"    {data['what']}"
    if data["command"]:
        yield Whole(f"    {_prompt(data['command'])} {data['command']}")


def _prompt(command: str) -> str:
    """Return the prompt of a command: a shell, SQL, or Python."""
    if command.startswith("spark.conf."):
        return ">>>"
    return "SQL>" if command.startswith(("DELETE ", "DESCRIBE ")) else "$"
