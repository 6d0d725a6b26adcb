"""Commands of operators: items ended or taken back, upkeep, and readers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer import Argument, Option

from spark_queue.cli import show_counts
from spark_queue.cli.command import (
    DryRun,
    Name,
    ReaderOption,
    Yes,
    command,
    operating,
    read_start,
)
from spark_queue.cli.commands.item_commands import show_affected
from spark_queue.cli.commands.setting_commands import (
    ConfigFile,
    FixedOptions,
    LiveOptions,
    read_mapping,
)
from spark_queue.cli.display import Whole
from spark_queue.cli.scope import Scope
from spark_queue.cli.words import plain
from spark_queue.config_changes import new_config, with_options
from spark_queue.errors import InvalidArgumentError
from spark_queue.flow_forms import expression_of, plain_pause, read_span, require_no_key
from spark_queue.reader_config import ReaderConfig
from spark_queue.wording import instant, visible

if TYPE_CHECKING:
    from spark_queue.cli.choice import AnyQueue
    from spark_queue.config import QueueConfig
    from spark_queue.results import Affected


@command
def create(
    scope: Scope,
    name: Name,
    schema: Annotated[str, Option(help="The columns, as in 'path string, size bigint'.")],
    config: ConfigFile = None,
    *,
    fixed: FixedOptions,
    live: LiveOptions,
    exist_ok: Annotated[
        bool, Option("--exist-ok", help="Keep an existing queue with these columns and keys.")
    ] = False,
) -> None:
    """Make a new queue."""
    settings = read_config(config, {**fixed.settings(), **live.settings()})
    made = scope.engine(name).create(scope, name, schema, settings, exist_ok=exist_ok)
    shown = {"queue": made.name, "schema": schema, "config": made.config.to_dict()}
    said = f"{made.name} is there" if exist_ok else f"created {made.name}"
    scope.display.show(shown, Whole(said))


def read_config(file: Path | None, options: dict[str, Any]) -> QueueConfig:
    """Read a configuration from a YAML file and from options, which win.

    Raises
    ------
    InvalidConfigError
        When the file cannot be read, is no mapping, or has an unknown name or a wrong value.
    """
    values = {} if file is None else read_mapping(file)
    return new_config(with_options(values, options))


_Key = Annotated[str | None, Option("--key", help="Only this key, such as a tenant.")]
_By = Annotated[
    str | None, Option("--by", help="By which expression it is a key: the fair key if none.")
]


@operating
def pause(
    scope: Scope,
    name: Name,
    reader: ReaderOption = None,
    key: _Key = None,
    by: _By = None,
    span: Annotated[
        str | None,
        Option("--for", help="For how long a key is paused, as 90s, 10m or 2h; for good if none."),
    ] = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Stop giving out items, or those of a key; claimed items go on."""
    queue = scope.open_queue(name, reader)[1]
    length = None if span is None else read_span(span)
    if key is None:
        require_no_key("pause", by=by, for_=length)
        _show_pause(scope, queue, paused=True, dry_run=dry_run)
        return
    if dry_run:
        _foresee_key(scope, queue, key, by, length)
        return
    _show_key(scope, queue, "paused", key, queue.pause(key=key, by=by, for_=length))


@operating
def resume(
    scope: Scope,
    name: Name,
    reader: ReaderOption = None,
    key: _Key = None,
    by: _By = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Give out items again, or those of a key."""
    queue = scope.open_queue(name, reader)[1]
    if key is None:
        require_no_key("resume", by=by)
        _show_pause(scope, queue, paused=False, dry_run=dry_run)
        return
    if dry_run:
        _foresee_key(scope, queue, key, by, timedelta(0))
        return
    _show_key(scope, queue, "resumed", key, queue.resume(key=key, by=by))


def _show_key(scope: Scope, queue: AnyQueue, word: str, key: str, step: int) -> None:
    """Say until when a key is paused now, or that it is not."""
    found = [plain_pause(one) for one in queue.paused_keys if one.key == key]
    ends = "".join(f" until {one['until'] or 'it is resumed'}" for one in found)
    said = f"{visible(key)}: {word}{ends}, from step {step} on"
    scope.display.show({"key": key, "pauses": found, "step": step}, said)


def _foresee_key(
    scope: Scope, queue: AnyQueue, key: str, by: str | None, length: timedelta | None
) -> None:
    """Say what a pause of such a length would change for a key; one of 0 resumes it."""
    text = expression_of(queue.config, by)
    known = [one for one in queue.paused_keys if (one.by, one.key) == (text, key)]
    until = None if length is None else datetime.now(timezone.utc) + length
    is_resumed = length == timedelta(0)
    said = "would be resumed" if is_resumed else f"would be paused until {_end_text(until)}"
    if is_resumed and not known:
        said = "nothing to do: it is not paused"
    if not is_resumed and any(one.lasts(until) for one in known):
        said = f"nothing to do: it is paused until {_end_text(known[0].until)}"
    shown = {"key": key, "pauses": [plain_pause(one) for one in known], "step": 0}
    scope.display.show(shown, f"{visible(key)}: {said}", "nothing was written")


def _end_text(until: datetime | None) -> str:
    return "it is resumed" if until is None else instant(until)


def _show_pause(scope: Scope, queue: AnyQueue, *, paused: bool, dry_run: bool) -> None:
    """Pause or resume a queue, and say so; or since when it was so before."""
    before, step = queue.paused, 0
    word = "paused" if paused else "resumed"
    said = f"would be {word}; nothing was written"
    if not dry_run:
        step = queue.pause() if paused else queue.resume()
        said = f"{word} from step {step} on"
    if before == paused:
        said = "nothing to do: it is not paused"
    if before and paused:
        service = queue.report().service
        by = f" by {service.paused_by}" if service.paused_by else ""
        said = f"nothing to do: it has been paused since {instant(service.paused_at)}{by}"
    scope.display.show({"paused": paused, "step": step, "changed": before != paused}, said)


@command
def drop(
    scope: Scope,
    name: Name,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Remove a queue and everything in it."""
    engine = scope.engine(name)
    place = engine.locate(scope, name)
    if dry_run:
        found = cast("Affected", engine.drop(scope, place, dry_run=True))
        show_affected(scope.display, "dropped", found, dry_run=True)
        return
    if not yes:
        _require_consent(place, asks=scope.display.asks())
    engine.drop(scope, place)
    scope.display.show({"dropped": place}, Whole(f"dropped {place}"))


def _require_consent(place: str, *, asks: bool) -> None:
    what = f"queue {place!r} and all its items"
    if not asks or not typer.confirm(f"Remove {what}?", err=True):
        raise InvalidArgumentError(f"{what} stay: say --yes to remove them")


@command
def add_columns(
    scope: Scope,
    name: Name,
    schema: Annotated[str, Option(help="The columns, as DDL; existing ones are skipped.")],
) -> None:
    """Give a queue more columns; items that are there have null in them."""
    added = scope.main_queue(name).add_columns(schema)
    said = f"added {', '.join(added)}" if added else "nothing to add: the columns are there"
    scope.display.show({"added": added}, said)


@command
def upgrade(scope: Scope, name: Name, *, dry_run: DryRun = False) -> None:
    """Bring a queue of an older release to the format of this one."""
    done = plain(scope.main_queue(name).upgrade(dry_run=dry_run))
    said = f"format {done['now']}, was {done['was']}, from step {done['step']} on"
    if dry_run:
        said = f"format {done['was']} would become {done['now']}; nothing was written"
    is_due = done["step"] or done["was"] != done["now"]
    scope.display.show(done, said if is_due else f"format {done['now']} already")


@command
def clone(
    scope: Scope,
    name: Name,
    to: Annotated[str, Argument(help="The clone: a path, or a table name of the catalog.")],
) -> None:
    """Make a queue once more, to try workers and settings on a real backlog.

    What is in flight is ready in the clone. The two know nothing of each other from then on.
    """
    engine = scope.engine(name)
    made = engine.clone(scope, name, to)
    shown = {"clone": made.name, "of": engine.locate(scope, name)}
    scope.display.show(shown, Whole(f"cloned {shown['of']} as {shown['clone']}"))


@command
def maintain(
    scope: Scope,
    name: Name,
    retention: Annotated[
        float | None, Option(help="Also drop what finished so many seconds ago.")
    ] = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Log what has expired, write a checkpoint, and merge small files."""
    kept_for = None if retention is None else timedelta(seconds=retention)
    if dry_run:
        found = scope.main_queue(name).maintain(retention=kept_for, dry_run=True)
        show_affected(scope.display, "ended or dropped", found, dry_run=True)
        return
    done = plain(scope.main_queue(name).maintain(retention=kept_for))
    scope.display.show(done, *show_counts.render_maintenance(done))


_Who = Annotated[str, Argument(help="The name of the reader.")]


@command
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
        Path | None, Option(help="A YAML file with its configuration, as ReaderConfig has it.")
    ] = None,
) -> None:
    """Register a reader, which sees every item from its start on.

    The first one takes over from the default reader, and is the default while it is the only one.
    """
    begins = None if start is None else read_start(start)
    reader_config = None if config is None else ReaderConfig.from_dict(read_mapping(config))
    queue = scope.main_queue(name)
    before = queue.readers()
    if reader in before and begins is not None:
        raise InvalidArgumentError(
            f"start is {start!r}: reader {reader!r} is there already, and stays where it is"
        )
    added = queue.reader(reader, start=begins, config=reader_config)
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
