from __future__ import annotations

import ast
import asyncio
import gc
from pathlib import Path

import pytest

from spark_queue.ingest.file_handler import declared_encoding, is_python, names

_SOURCE = b"""
import os

def first():
    def inner(): ...

class Box:
    class Lid: ...
    async def open(self): ...
    if os.name:
        def close(self): ...

try:
    def last(): ...
except ImportError:
    pass
"""


def test_definitions_are_named_with_what_encloses_them() -> None:
    """Functions and classes come in the order of the text, nested and conditional ones too."""
    found = names(_SOURCE)

    assert found.functions == ("first", "first.inner", "Box.open", "Box.close", "last")
    assert found.classes == ("Box", "Box.Lid")
    assert found.error is None


_BLOCKS = b"""
for a in b:
    def f1(): ...
else:
    def f2(): ...
while a:
    def f3(): ...
else:
    def f4(): ...
try:
    def f5(): ...
except A:
    def f6(): ...
except B:
    def f7(): ...
else:
    def f8(): ...
finally:
    def f9(): ...
with a:
    def f10(): ...
if a:
    def f11(): ...
elif b:
    def f12(): ...
else:
    def f13(): ...
match a:
    case 1:
        def f14(): ...
    case _:
        def f15(): ...
async def f16():
    async for a in b:
        def f17(): ...
    async with a:
        def f18(): ...
"""


def test_definitions_are_found_in_every_kind_of_block() -> None:
    """Wherever a statement may stand, a definition there is found, in the order of the text."""
    outer = [f"f{number}" for number in range(1, 17)]

    assert names(_BLOCKS).functions == (*outer, "f16.f17", "f16.f18")


def test_blocks_hold_all_definitions_of_real_sources() -> None:
    """Statements alone have what a visit of every node finds."""
    sources = sorted(Path(asyncio.__file__).parent.glob("*.py"))
    assert len(sources) > 20

    for path in sources:
        source = path.read_bytes()
        nodes = list(ast.walk(ast.parse(source)))
        functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        classes = [n for n in nodes if isinstance(n, ast.ClassDef)]
        found = names(source)
        assert (len(found.functions), len(found.classes)) == (len(functions), len(classes)), path


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collector_is_left_as_it_was(*, enabled: bool) -> None:
    """A source that parses and one that does not leave the collector on, or off."""
    try:
        (gc.enable if enabled else gc.disable)()
        names(b"x = 1")
        names(b"x = (")

        assert gc.isenabled() is enabled
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (b"def (:", "line 1: invalid syntax"),
        (b"x = 1\n  y = 2", "line 2: unexpected indent"),
        (b"x = '\x00'", "null bytes"),
        (b"# coding: nonsense\n", "nonsense"),
        (b"x = '\xff'", "utf-8"),
    ],
)
def test_source_that_does_not_parse_says_why(source: bytes, error: str) -> None:
    """The parse error stands in for the names."""
    found = names(source)

    assert error in (found.error or "")
    assert (found.functions, found.classes) == ((), ())


def test_warnings_of_the_parser_are_not_errors() -> None:
    """A source that Python only warns about parses."""
    assert names(b"x = '\\d' is 'a'").error is None


def test_source_nested_beyond_the_parser_says_so() -> None:
    """A source that is nested too deep for the parser has an error, and ends nothing."""
    assert names(b"(" * 5_000 + b")" * 5_000).error is not None


def test_deep_tree_does_not_need_a_deep_stack() -> None:
    """An expression of ten thousand terms is walked."""
    assert names(b"x = " + b" + ".join([b"a"] * 900) + b"\ndef f(): ...").functions == ("f",)


def test_source_is_not_run() -> None:
    """Parsing has no side effect."""
    assert names(b"raise SystemExit\ndef f(): ...").functions == ("f",)


@pytest.mark.parametrize(
    ("source", "encoding"),
    [
        (b"x = 1", "utf-8"),
        (b"# -*- coding: euc-jp -*-\n", "euc-jp"),
        (b"\xef\xbb\xbfx = 1", "utf-8-sig"),
        (b"# coding: nonsense\n", None),
        (b"# coding: rot13\n", None),
    ],
)
def test_declared_encoding_follows_the_comment(source: bytes, encoding: str | None) -> None:
    """The encoding is the declared one, and none where the declaration is wrong."""
    assert declared_encoding(source) == encoding


@pytest.mark.parametrize(("path", "python"), [("a/b.py", True), ("b.pyi", True), ("b.pyc", False)])
def test_python_is_told_by_the_name(path: str, python: bool) -> None:  # noqa: FBT001 - a parameter
    """Sources and stubs are parsed, compiled files are not."""
    assert is_python(path) is python
