"""Commands that move items: enqueue, process, redrive, cancel, purge."""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from spark_queue import extras
from spark_queue.cli import show_counts
from spark_queue.cli.choice import AnyQueue, Format, RowSource, format_of, local_path
from spark_queue.cli.command import DryRun, Name, ReaderOption, command, operating
from spark_queue.cli.commands.setting_commands import Lease
from spark_queue.cli.display import Display
from spark_queue.cli.progress import claim_progress
from spark_queue.cli.scope import Scope
from spark_queue.cli.words import plain
from spark_queue.errors import InvalidArgumentError
from spark_queue.wording import plural

if TYPE_CHECKING:
    from spark_queue.processing.loop import ProcessResult
    from spark_queue.results import Affected

_Where = Annotated[str, Option(help="Which items: a SQL predicate over the columns of status.")]


class Duplicates(str, Enum):
    """What to do with a row whose key is taken."""

    SKIP = "skip"
    RAISE = "raise"
    REPLACE = "replace"


class Mismatch(str, Enum):
    """What to do where a batch comes again with another number of rows."""

    WARN = "warn"
    RAISE = "raise"


class Per(str, Enum):
    """What one call of a handler gets."""

    ITEM = "item"
    BATCH = "batch"


Handler = Annotated[str, Argument(help="The handler, as module:function.")]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of the commands that run a handler."""

    returns: Annotated[str | None, Option(help="The columns that it returns.")] = None
    output: Annotated[str | None, Option(help="The Delta table that gets them.")] = None
    per: Annotated[Per, Option(help="What one call gets.")] = Per.ITEM
    limit: Annotated[str, Option(metavar="<int>|auto", help="Items that one claim takes.")] = "auto"
    max_per_group: Annotated[
        int | None,
        Option(help="Items of one group that a claim takes at most."),
    ] = None

    def arguments(self, scope: Scope, *, is_here: bool = False) -> dict[str, Any]:
        """Return them as arguments of ``process``."""
        placed = local_path if is_here else scope.locate
        output = None if self.output is None else placed(self.output)
        given = asdict(self) | {"per": self.per.value, "output": output}
        return given | {"limit": int(self.limit) if self.limit.isdigit() else self.limit}


@command
def enqueue(
    scope: Scope,
    name: Name,
    table: Annotated[str | None, Option(help="A table of the catalog.")] = None,
    files: Annotated[str | None, Option(help="A file, directory or pattern.")] = None,
    format: Annotated[  # noqa: A002
        Format | None, Option(help="Of the files; by default what their names tell.")
    ] = None,
    order_by: Annotated[
        str | None, Option(help="The column whose order the rows enter in.")
    ] = None,
    on_duplicate: Annotated[
        Duplicates | None, Option(help="By default as the queue is configured.")
    ] = None,
    batch: Annotated[
        str | None,
        Option(metavar="<source>:<int>", help="Whose batch it is: a repeated one writes nothing."),
    ] = None,
    on_mismatch: Annotated[
        Mismatch, Option(help="Where the last batch comes again with another number of rows.")
    ] = Mismatch.WARN,
) -> None:
    """Add the rows of a table or of files, all in one step.

    A CSV file has a header line; a JSON file has an object a line, or is one array of objects.

    With --batch nightly:17 the command may be repeated: it tells that, and what the first one did.
    """
    if (table is None) == (files is None):
        raise InvalidArgumentError("say where the rows are: --table or --files, one of them")
    # Before Spark is started: it takes a while.
    kind = None if files is None else format or format_of(files)
    source = RowSource(
        table=table,
        files=files,
        kind=kind,
        options={
            "order_by": order_by,
            "on_duplicate": on_duplicate and on_duplicate.value,
            "on_mismatch": on_mismatch.value,
            "batch": None if batch is None else _read_batch(batch),
        },
    )
    engine, queue = scope.open_queue(name)
    done = engine.enqueue(scope, queue, source)
    counts = {
        "step": done.step,
        "inserted": done.inserted,
        "duplicates": done.duplicates,
        "busy": done.busy,
        "repeated": None if done.repeated is None else asdict(done.repeated),
    }
    scope.display.show(counts, *show_counts.render_enqueue(counts))


def _read_batch(text: str) -> tuple[str, int]:
    source, _, number = text.rpartition(":")
    try:
        return source, int(number)
    except ValueError:
        raise InvalidArgumentError(f"batch is {text!r}: give it as SOURCE:NUMBER") from None


@command
def process(
    scope: Scope,
    name: Name,
    handler: Handler,
    *,
    how: RunOptions,
    lease: Lease = None,
    item_time_limit: Annotated[
        float | None, Option(help="Seconds that an item may take; then it has failed.")
    ] = None,
    time_limit: Annotated[
        float | None, Option(help="Seconds after which nothing more is claimed.")
    ] = None,
    reader: ReaderOption = None,
    forever: Annotated[
        bool, Option("--forever", help="Wait for more, until a signal or the time limit.")
    ] = False,
    each_claim: Annotated[
        bool, Option("--each-claim", help="Also print the result of each claim.")
    ] = False,
) -> None:
    """Run a handler for every item that may run now, until there is none left.

    It runs in this process; on Spark with --engine spark, and where only Spark reaches the queue or
    the output. SIGTERM and SIGINT end it with 143 and 130; what it holds is given back.

    On a screen its progress is shown. With --each-claim and --json each claim is an object on a
    line of its own, and the result of all is the last one.
    """
    function = load_handler(handler)
    is_here = scope.runs_here(name, how.output)
    if not is_here:
        pickle_module(handler)
    queue = scope.open_queue(name, reader)[1] if is_here else scope.reading(name, reader)
    options = how.arguments(scope, is_here=is_here)
    with claim_progress(scope.display, lambda: outstanding(queue), each=each_claim) as tell:

        def work(stop: threading.Event | None) -> ProcessResult:
            return queue.process(
                function,
                **options,
                lease=_seconds(lease),
                item_time_limit=_seconds(item_time_limit),
                time_limit=_seconds(time_limit),
                stop=stop,
                on_claim=tell,
                forever=forever,
            )

        # Without Spark it hears signals by itself.
        done = work(None) if is_here else scope.interruptible(work)
    scope.display.show(done, *show_counts.render_process(plain(done)))


def outstanding(queue: AnyQueue) -> int:
    """Return how many items are not finished, from the heads of the two logs."""
    counts = queue.counts()
    return counts["ready"] + counts["claimed"]


@operating
def redrive(
    scope: Scope,
    name: Name,
    where: _Where = "_state = 'dead'",
    reader: ReaderOption = None,
    *,
    again: Annotated[bool, Option("--again", help="Also items redriven before.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Enqueue dead, expired or cancelled items again, once; by default all dead ones."""
    count = scope.open_queue(name, reader)[1].redrive(where, dry_run=dry_run, again=again)
    show_affected(scope.display, "redriven", count, dry_run=dry_run)


@operating
def cancel(
    scope: Scope,
    name: Name,
    where: _Where,
    reader: ReaderOption = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """End items that are ready or claimed."""
    count = scope.open_queue(name, reader)[1].cancel(where, dry_run=dry_run)
    show_affected(scope.display, "cancelled", count, dry_run=dry_run)


@command
def purge(
    scope: Scope,
    name: Name,
    where: _Where,
    *,
    dry_run: DryRun = False,
    now: Annotated[
        bool, Option("--now", help="Also remove files that were replaced, which go a week later.")
    ] = False,
) -> None:
    """Remove finished items and their history for good."""
    count = scope.main_queue(name).purge(where, dry_run=dry_run, now=now)
    show_affected(scope.display, "purged", count, dry_run=dry_run)


@operating
def undo(
    scope: Scope,
    name: Name,
    step: Annotated[int, Argument(min=1, help="The step of the status log.")],
    reader: ReaderOption = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Take back what a step did: a cancel, a pause, a resume, or a configuration.

    Cancelled items come back as new ones that name the old, at their places; one whose key was
    taken since does not. Done twice it is done once.
    """
    done = plain(scope.open_queue(name, reader)[1].undo(step, dry_run=dry_run))
    scope.display.show({**done, "dry_run": dry_run}, *show_counts.undone(done, dry_run=dry_run))


def load_handler(spec: str) -> Callable[..., Any]:
    """Return the function that ``module:function`` names; modules here come first.

    Raises
    ------
    InvalidArgumentError
        When there is no such module or function.
    """
    module_name, _, function_name = spec.partition(":")
    if not module_name or not function_name:
        raise InvalidArgumentError(f"handler is {spec!r}: name it as module:function")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = import_module(module_name)
    except ImportError as exc:
        raise InvalidArgumentError(f"handler {spec!r}: {exc}") from exc
    function = getattr(module, function_name, None)
    if not callable(function):
        raise InvalidArgumentError(
            f"handler {spec!r}: module {module_name} has no function {function_name!r}"
        )
    found: Callable[..., Any] = function
    return found


def pickle_module(handler: str) -> None:
    """Pickle a module of the user's with its handler, for Spark's workers."""
    cloudpickle = extras.load("pyspark.cloudpickle", "a handler that Spark runs")
    module = sys.modules[handler.partition(":")[0]]
    homes = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    file = getattr(module, "__file__", None)
    if file is not None and not any(Path(file).is_relative_to(home) for home in homes):
        cloudpickle.register_pickle_by_value(module)


def _seconds(value: float | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)


def show_affected(display: Display, what: str, count: Affected, *, dry_run: bool) -> None:
    """Show how many items a change was, or would be, about; and which."""
    told: dict[str, object] = {"count": int(count), "dry_run": dry_run}
    if count.stays:
        told["stays"] = count.stays
    stays = show_counts.render_stays(count.stays)
    if not dry_run:
        written = f", step {count.step}" if count.step else ""
        said = f"{plural(count, 'item')} {what}{written}"
        display.show({**told, "step": count.step}, said, *stays)
        return
    told |= {"states": count.states, "becomes": count.becomes, "sample": plain(count.sample)}
    display.show(told, *show_counts.render_affected(what, told), *stays)
