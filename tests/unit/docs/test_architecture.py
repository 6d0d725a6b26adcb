"""The picture of the rooms is what they import."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_PACKAGE = _ROOT / "spark_queue"
_PAGE = (_ROOT / "docs" / "architecture.md").read_text()
_PICTURE = re.search(r"```mermaid\nflowchart TD\n(.*?)```", _PAGE, re.DOTALL)
_NODE = r"(\w+)(?:\[([^\]]+)\])?"


def _arrows() -> list[tuple[str, str]]:
    assert _PICTURE is not None
    return re.findall(r"(\w+)\S*.*? --> (\w+)", _PICTURE[1])


def _rooms() -> dict[str, list[Path]]:
    """Return the files of each node: those of its label, before the colon, or of its name."""
    assert _PICTURE is not None
    found: dict[str, str] = {}
    for name, label in re.findall(_NODE, _PICTURE[1]):
        rooms = (label or found.get(name) or name).partition(":")[0]
        found[name] = rooms
    return {name: _files(rooms.split(", ")) for name, rooms in found.items()}


def _files(rooms: list[str]) -> list[Path]:
    places = [_PACKAGE / room for room in rooms]
    return [file for place in places for file in [place, *place.rglob("*.py")] if file.is_file()]


def _imported(files: list[Path]) -> set[Path]:
    """Return the files of the package that some files import."""
    found = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("spark_queue"):
                place = _ROOT / (node.module or "").replace(".", "/")
                names = [place / alias.name for alias in node.names]
                found |= {one.with_suffix(".py") for one in [place, *names]}
                found |= {one / "__init__.py" for one in [place, *names]}
    return {file for file in found if file.is_file()}


def test_the_picture_has_every_room() -> None:
    """But for rooms of which it shows parts: a folder of the package is a node, or in one."""
    shown = {file for files in _rooms().values() for file in files}
    rooms = {file.parent for file in _PACKAGE.glob("*/__init__.py")}
    left = {room.name for room in rooms if not shown & set(room.rglob("*.py"))}
    assert left == {"data_source", "doctor"}


@pytest.mark.parametrize("arrow", _arrows(), ids=" to ".join)
def test_an_arrow_is_an_import(arrow: tuple[str, str]) -> None:
    """Of a file of the one by a file of the other."""
    above, below = (set(_rooms()[name]) for name in arrow)
    assert _imported([*(above - below)]) & below
