"""What makes a command of a function."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from spark_queue.cli.command import command
from spark_queue.cli.scope import Scope


@dataclass(frozen=True)
class _Size:
    width: Annotated[int, typer.Option(help="How wide.")]
    height: Annotated[int, typer.Option(help="How high.")] = 2


@command
def area(scope: Scope, name: str, *, size: _Size, unit: str = "m") -> None:
    """Tell how large something is."""
    scope.display.show({"name": name, "area": size.width * size.height, "unit": unit})


_app = typer.Typer()
_app.command()(area)


def test_fields_of_a_dataclass_are_options() -> None:
    """What several commands share is declared once: each field is an option, with its default."""
    ended = CliRunner().invoke(_app, ["a", "--width", "3", "--json"])

    assert json.loads(ended.output) == {"name": "a", "area": 6, "unit": "m"}


def test_field_without_a_default_must_be_given() -> None:
    """A field that has no default is an option that cannot be left out."""
    ended = CliRunner().invoke(_app, ["a", "--height", "3"])

    assert (ended.exit_code, "--width" in ended.output) == (2, True)


def test_options_stand_in_the_order_of_the_function() -> None:
    """Those of a group stand where the group does; those of all commands come last."""
    text = CliRunner().invoke(_app, ["--help"]).output

    places = [text.index(f"--{name} ") for name in ("width", "height", "unit", "json", "verbose")]
    assert places == sorted(places)
    assert "Tell how large something is." in text
