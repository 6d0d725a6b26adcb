"""Base of all commands: a function of a scope, with shared options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import wraps
from inspect import Parameter
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from spark_queue import acting
from spark_queue.acting import acting_as
from spark_queue.cli.choice import EngineChoice
from spark_queue.cli.scope import open_scope
from spark_queue.errors import InvalidArgumentError
from spark_queue.wording import visible

#: Signs of a user and a machine that are logged.
_LONGEST_NAME = 100

_Json = Annotated[bool, Option("--json", help="Print one JSON object and nothing else.")]
_Verbose = Annotated[
    bool, Option("--verbose", help="Show what Spark says, and tracebacks of errors.")
]
_Engine = Annotated[
    EngineChoice,
    Option(
        envvar="SPARK_QUEUE_ENGINE",
        help="Who answers: this process, Spark, or Spark where this process cannot.",
    ),
]

Name = Annotated[str, Argument(help="The queue: a path, or a table name of the catalog.")]
DryRun = Annotated[
    bool, Option("--dry-run", help="Only count what it is about, and show the first.")
]
Yes = Annotated[bool, Option("--yes", help="Do not ask.")]
ReaderOption = Annotated[
    str | None, Option(help="As this reader of the queue sees it; the default one if none.")
]


def operating(body: Callable[..., None]) -> Callable[..., None]:
    """Make a command of an operator: the log names the operator and the command."""
    name = body.__name__

    @wraps(body)
    def sign(*args: Any, **options: Any) -> None:
        with acting_as(f"{visible(acting.whoami())[:_LONGEST_NAME]} (spark-queue {name})"):
            body(*args, **options)

    return command(sign)


def command(body: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function over a scope, its first parameter.

    It also gets ``--json``, ``--verbose`` and ``--engine``, and its errors become a line and an
    exit code. A parameter whose type is a dataclass stands for an option of each of its fields.
    """
    _, *given = inspect.signature(body, eval_str=True).parameters.values()
    groups: dict[str, Any] = {
        one.name: one.annotation for one in given if is_dataclass(one.annotation)
    }

    @wraps(body)
    def run(
        ctx: typer.Context, *, json: bool, verbose: bool, engine: EngineChoice, **options: Any
    ) -> None:
        for name, kind in groups.items():
            options[name] = kind(**{field.name: options.pop(field.name) for field in fields(kind)})
        with open_scope(ctx.obj, json=json, verbose=verbose, engine=engine) as scope:
            scope.run(lambda: body(scope, **options))

    shown = [
        _option("ctx", typer.Context, Parameter.empty),
        *(option for one in given for option in _options(one)),
        _option("json", _Json, default=False),
        _option("verbose", _Verbose, default=False),
        _option("engine", _Engine, EngineChoice.AUTO),
    ]
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return run


def _options(given: Parameter) -> Iterator[Parameter]:
    kind = given.annotation
    if not is_dataclass(kind):
        yield _option(given.name, kind, given.default)
        return
    types = inspect.get_annotations(kind, eval_str=True)  # type: ignore[arg-type]
    for field in fields(kind):
        yield _option(field.name, types[field.name], field.default)


def _option(name: str, kind: Any, default: Any) -> Parameter:
    if default is MISSING:
        default = Parameter.empty
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)


AsOfOption = Annotated[
    str | None,
    Option(help="As it was: a step of the status log, or a time with its zone (ISO 8601)."),
]


def read_as_of(text: str | None) -> int | datetime | None:
    """Read the step or instant to look back at.

    Raises
    ------
    InvalidArgumentError
        When it is no number and no time with a zone.
    """
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    return _instant(text, "as_of", "a step of the status log")


def read_start(text: str) -> Literal["tail", "beginning"] | int | datetime:
    """Read where a reader starts.

    Raises
    ------
    InvalidArgumentError
        When it is no word for a place, no number and no time with a zone.
    """
    if text == "tail":
        return "tail"
    if text == "beginning":
        return "beginning"
    if text.isdecimal():
        return int(text)
    return _instant(text, "start", "tail, beginning, a step")


def _instant(text: str, what: str, others: str) -> datetime:
    try:
        # Python 3.10 does not read the Z.
        instant = datetime.fromisoformat(text.removesuffix("Z") + "+00:00" * text.endswith("Z"))
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise InvalidArgumentError(
            f"{what} is {text!r}: it is {others}, or a time with its zone, "
            "as in 2026-01-31T12:00:00+00:00"
        )
    return instant
