"""The commands by their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from spark_queue import __version__

#: Options that had another name once, which is still understood.
_FORMER = {"out": "output"}

#: The functions of commands by what they are for, as the help shows them.
_FUNCTIONS = {
    "Begin": "demo.demo ingest.ingest extra_files.files admin_commands.create",
    "Work": (
        "item_commands.enqueue item_commands.process "
        "stream_commands.stream_enqueue stream_commands.stream_dispatch"
    ),
    "Look": (
        "view_commands.status view_commands.stats view_commands.dead view_commands.explain "
        "view_commands.history view_commands.wait checkup.doctor view_commands.report "
        "view_commands.top serving.serve view_commands.metrics setting_commands.config "
        "admin_commands.readers"
    ),
    "Change items": (
        "item_commands.redrive item_commands.cancel item_commands.purge item_commands.undo"
    ),
    "Change a queue": (
        "setting_commands.configure admin_commands.pause admin_commands.resume "
        "admin_commands.add_reader admin_commands.drop_reader admin_commands.add_columns "
        "admin_commands.maintain admin_commands.upgrade admin_commands.drop"
    ),
    "Try out": "admin_commands.clone replay.replay",
}

#: The group and the function of each command, by its name.
_COMMANDS = {
    place.rpartition(".")[2].replace("_", "-"): (group, place)
    for group, places in _FUNCTIONS.items()
    for place in places.split()
}


class _PlainFlags:
    """Commands whose help names no type of a flag, and of a list the type of a member."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments, the help option last."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in found:
            if getattr(one, "is_flag", False):
                one.metavar = ""
            elif getattr(one, "multiple", False) and one.metavar is None:
                one.metavar = "<str>"
        return found


class _PlainCommand(_PlainFlags, TyperCommand):
    """See the first base."""


@cache
def _member(name: str) -> Any:
    """Make a command, which imports what it needs."""
    group, place = _COMMANDS[name]
    module, _, function = place.partition(".")
    body = getattr(import_module(f"spark_queue.cli.commands.{module}"), function)
    alone = typer.Typer(add_completion=False)
    alone.command(name, cls=_PlainCommand, help=_help_of(body), rich_help_panel=group)(body)
    return typer.main.get_command(alone)


class _Members(Mapping[str, Any]):
    """The commands by name, each made when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        return _member(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a command; an error within its own module is no unknown name."""
        return _member(name) if name in _COMMANDS else default

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _PlainGroup(_PlainFlags, TyperGroup):
    """See the first base."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": _Members()})

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, of which none is made."""
        del ctx
        return list(self.commands)


app = typer.Typer(
    name="spark-queue",
    cls=_PlainGroup,
    help="A work queue for Spark on two Delta tables: distinct, fair by key, serial per group.",
    no_args_is_help=True,
    # An error is one line; its traceback is for --verbose.
    pretty_exceptions_enable=False,
    context_settings={"token_normalize_func": lambda name: _FORMER.get(name, name)},
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - called with the option's value
    if asked:
        typer.echo(f"spark-queue {__version__}")
        raise typer.Exit


@app.callback()
def _whole(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Set the options of all commands; typer shows the text above."""


def _help_of(member: Callable[..., None]) -> str:
    """Return the text of a command with a line for each paragraph, to be wrapped by a terminal."""
    paragraphs = (inspect.getdoc(member) or "").split("\n\n")
    return "\n\n".join(" ".join(one.split()) for one in paragraphs)


@cache
def command() -> TyperGroup:
    """Return all commands as one, cached."""
    return cast("TyperGroup", typer.main.get_command(app))
