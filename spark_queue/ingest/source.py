"""Declarations of a Python source: its encoding, functions and classes."""

from __future__ import annotations

import ast
import gc
import io
import tokenize
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_SUFFIXES = (".py", ".pyi", ".pyw")

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

#: Where nodes keep statements. Nothing is defined inside an expression, and a tree is mostly those.
_BLOCKS = frozenset({"body", "handlers", "cases", "orelse", "finalbody"})

_KINDS: tuple[type[ast.AST], ...] = (
    ast.Module,
    ast.ExceptHandler,
    ast.match_case,
    *ast.stmt.__subclasses__(),
)

#: The blocks of each kind of node that has any, the last first.
_BLOCKS_OF = {
    kind: blocks
    for kind in _KINDS
    if (blocks := tuple(field for field in reversed(kind._fields) if field in _BLOCKS))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The definitions of a source, or why there are none to see."""

    functions: tuple[str, ...] = ()
    """Functions and methods in the order of the text, with what encloses them: ``Queue.put``."""
    classes: tuple[str, ...] = ()
    """Classes, likewise."""
    error: str | None = None
    """Why the source does not parse."""


def is_python(path: str) -> bool:
    """Tell by its name whether a file is a Python source."""
    return path.endswith(_SUFFIXES)


def declared_encoding(source: bytes) -> str | None:
    """Return the encoding that a source has by PEP 263; ``None`` where what it says is wrong."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        # Neither a codec that is none of text, nor one of two bytes a sign, is that of a source.
        b"#".decode(encoding)
    except (SyntaxError, LookupError, UnicodeError):
        return None
    return encoding


def names(source: bytes) -> Definitions:
    """Parse a source and name what it defines. The source is not run."""
    try:
        with _without_collections(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _find_definitions(ast.parse(source))
    except SyntaxError as exc:
        place = f"line {exc.lineno}: " if exc.lineno else ""
        return Definitions(error=_printable(f"{place}{exc.msg}"))
    except (ValueError, RecursionError, MemoryError) as exc:
        return Definitions(error=_printable(f"{type(exc).__name__}: {exc}"))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Keep the garbage collector from looking through a tree while it grows: it has no cycles."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _find_definitions(module: ast.Module) -> Definitions:
    functions: list[str] = []
    classes: list[str] = []
    # A stack of our own: sources may be nested deeper than Python's.
    waiting: list[tuple[ast.AST, str]] = [(module, "")]
    while waiting:
        node, prefix = waiting.pop()
        if isinstance(node, _Definition):
            named = classes if isinstance(node, ast.ClassDef) else functions
            named.append(prefix + node.name)
            prefix = f"{prefix}{node.name}."
        for block in _BLOCKS_OF[type(node)]:
            inner = reversed(getattr(node, block))
            waiting.extend((child, prefix) for child in inner if type(child) in _BLOCKS_OF)
    return Definitions(functions=tuple(functions), classes=tuple(classes))


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
