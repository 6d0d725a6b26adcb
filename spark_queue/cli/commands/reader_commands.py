"""Commands on the readers of a queue: who they are, how far behind, one more, one less."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from typer import Argument, Option

from spark_queue.cli import show_counts
from spark_queue.cli.command import DryRun, Name, command, looking, read_start
from spark_queue.cli.commands.item_commands import show_affected
from spark_queue.cli.commands.setting_commands import read_mapping
from spark_queue.cli.scope import Scope
from spark_queue.cli.words import plain
from spark_queue.errors import InvalidArgumentError
from spark_queue.reader_config import ReaderConfig

if TYPE_CHECKING:
    from spark_queue.results import Affected

_Who = Annotated[str, Argument(help="The name of the reader.")]


@looking
def readers(scope: Scope, name: Name) -> None:
    """Show the readers of a queue, and how far each of them is behind."""
    queue = scope.main_queue(name)
    seen = [plain(queue.open_reader(reader).lag()) for reader in queue.readers()]
    shown = {"queue": queue.name, "readers": seen}
    scope.display.show(shown, *show_counts.readers(shown))


@command
def add_reader(
    scope: Scope,
    name: Name,
    reader: _Who,
    start: Annotated[
        str | None,
        Option(help="tail (default), beginning, a step of the item log, or an ISO 8601 time."),
    ] = None,
    config: Annotated[
        Path | None, Option(help="A YAML file with its limits, as ReaderConfig has them.")
    ] = None,
) -> None:
    """Register a reader, which sees every item from its start on.

    The first one takes over from the default reader, and is the default while it is the only one.
    """
    begins = None if start is None else read_start(start)
    limits = None if config is None else ReaderConfig.from_dict(read_mapping(config))
    queue = scope.main_queue(name)
    before = queue.readers()
    if reader in before and begins is not None:
        raise InvalidArgumentError(
            f"start is {start!r}: reader {reader!r} is there already, and stays where it is"
        )
    added = queue.reader(reader, start=begins, config=limits)
    after = queue.readers()
    shown = {
        "reader": added.reader,
        "number": added.number,
        "limits": added.limits.to_dict(),
        "readers": list(after),
        "news": news(reader, before, after),
    }
    scope.display.show(shown, str(shown["news"]))


def news(reader: str, before: Sequence[str], after: Sequence[str]) -> str:
    """Say what a registration changes for those who work with the queue."""
    if reader in before:
        return f"reader {reader} was there already; its limits are as given"
    if "" in before:
        what = f"reader {reader} has taken over from the default reader, with its items and place"
    else:
        what = f"reader {reader} is one of {len(after)}; each sees every item"
    if len(after) == 1:
        return f"{what}; while it is the only one, commands without --reader mean it"
    return f"{what}; commands need --reader from now on ({', '.join(after)})"


@command
def drop_reader(scope: Scope, name: Name, reader: _Who, *, dry_run: DryRun = False) -> None:
    """Forget a reader: its position, and what it has not read."""
    queue = scope.main_queue(name)
    if dry_run:
        found = cast("Affected", queue.drop_reader(reader, dry_run=True))
        show_affected(scope.display, "left unread", found, dry_run=True)
        return
    queue.drop_reader(reader)
    left = list(queue.readers())
    scope.display.show({"dropped": reader, "readers": left}, f"dropped reader {reader}")
